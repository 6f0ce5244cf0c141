package lease

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// processes returns the leases of two podrun processes on one pod, of which the first one has acquired the
// pod. No process holds the pod's lock.
func processes(t *testing.T) (first, second *Lease) {
	t.Helper()
	id := identity.Pod{Namespace: "default", Name: "web", UID: "u"}
	layout := identity.Layout{RootDir: t.TempDir(), RunDir: t.TempDir()}
	if err := os.MkdirAll(string(layout.Pod(id.UID)), 0o750); err != nil {
		t.Fatal(err)
	}
	lease := func(holder string, p store.Purpose) *Lease {
		lock, err := store.NewLocks(layout, holder, func(problem.List) {}).LockPod(t.Context(), id, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(lock.Release)
		l := New(pod.New(&node.Node{}, &prepare.Plan{ID: id, Layout: layout}), lock)
		l.HasDir = true
		return l
	}
	first = lease("first", store.PurposeRun)
	if err := first.Acquire(store.PurposeRun); err != nil {
		t.Fatal(err)
	}
	first.Lock.Unlock()
	second = lease("second", store.PurposeRun)
	second.Lock.Unlock()
	return first, second
}

// take takes the lock of a process while f runs.
func take(t *testing.T, l *Lease, f func() error) {
	t.Helper()
	if _, err := l.Lock.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f(); err != nil {
		t.Fatal(err)
	}
	l.Lock.Unlock()
}

// TestOwnership checks what a process sees of its ownership after another process has acted on the pod.
func TestOwnership(t *testing.T) {
	for name, tc := range map[string]struct {
		do func(t *testing.T, other *Lease)
		// what the first process then sees
		lost, ended, startedByOther, removed bool
		owned                                bool
		err                                  string // of CheckOwnership
	}{
		"nothing": {do: func(*testing.T, *Lease) {}, owned: true},
		"an apply of a pod whose containers have started": {do: func(t *testing.T, other *Lease) {
			take(t, other, func() error { return other.Acquire(store.PurposeRun) })
		}, lost: true, startedByOther: true},
		"an apply that has started no container": {do: func(t *testing.T, other *Lease) {
			take(t, other, func() error {
				if err := other.Acquire(store.PurposeRun); err != nil {
					return err
				}
				return other.Lock.Update(func(r *store.OwnerRecord) { r.Fresh = true })
			})
		}, lost: true},
		"a stop": {do: func(t *testing.T, other *Lease) {
			take(t, other, func() error { return other.Acquire(store.PurposeStop) })
			other.Lock.Release()
		}, lost: true, ended: true, startedByOther: true},
		"an interrupted delete": {do: func(t *testing.T, other *Lease) {
			take(t, other, func() error {
				return errors.Join(other.Acquire(store.PurposeRemove), other.Lock.Update(func(r *store.OwnerRecord) { r.Doomed = true }))
			})
			other.Lock.Release()
		}, lost: true, ended: true, startedByOther: true, err: "pod default/web: its removal by "},
		"the directory was removed": {do: func(t *testing.T, other *Lease) {
			if err := os.RemoveAll(filepath.Dir(other.Pod.Plan.Layout.Pod("u").Checkpoint())); err != nil {
				t.Fatal(err)
			}
		}, lost: true, ended: true, startedByOther: true, removed: true, owned: true},
		"a delete": {do: func(t *testing.T, other *Lease) {
			take(t, other, func() error {
				return errors.Join(other.Acquire(store.PurposeRemove), os.RemoveAll(string(other.Pod.Plan.Layout.Pod("u"))), other.Lock.Disown())
			})
			other.Lock.Release()
		}, lost: true, ended: true, startedByOther: true, removed: true, err: "pod default/web: was deleted by "},
	} {
		t.Run(name, func(t *testing.T) {
			mine, other := processes(t)
			tc.do(t, other)
			for what, got := range map[string][2]bool{"lost": {mine.Lost(), tc.lost}, "ended": {mine.Ended(), tc.ended},
				"started by another process": {mine.StartedByOther(), tc.startedByOther}, "removed": {mine.Removed(), tc.removed}} {
				if got[0] != got[1] {
					t.Errorf("%s: %v", what, got[0])
				}
			}
			take(t, mine, func() error {
				mine.Undo.Push("x", func(context.Context) error { return nil })
				o, err := mine.CheckOwnership(t.Context())
				if o.Owned != tc.owned || mine.Undo.Empty() == tc.owned {
					t.Errorf("owned: %v; the undo steps remain: %v", o.Owned, !mine.Undo.Empty())
				}
				switch e, _ := errors.AsType[*problem.Error](err); {
				case tc.err == "" && err != nil:
					t.Errorf("CheckOwnership: %v", err)
				case tc.err != "" && (e == nil || e.Kind != problem.Failed || !strings.HasPrefix(err.Error(), tc.err)):
					t.Errorf("CheckOwnership: %v, want %s", err, tc.err)
				}
				if IsDeleted(err) != (name == "a delete") {
					t.Errorf("deleted: %v", IsDeleted(err))
				}
				return nil
			})
		})
	}
}

// TestOrCause checks that a call that failed returns its own error, and that a call that ended without one,
// or because the pod was lost, returns the cause that ended the command.
func TestOrCause(t *testing.T) {
	cause, failed := errors.New("ended by SIGINT"), errors.New("failed")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, tc := range []struct{ err, want error }{{nil, cause}, {errLost, cause}, {failed, failed}} {
		if got := orCause(ctx, tc.err); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
}
