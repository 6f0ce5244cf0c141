package ownership

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestNodeLockIsWaitedForWithAMessage checks that a command that waits long for the node's lock
// prints once which process holds it (faults.md, F10).
func TestNodeLockIsWaitedForWithAMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		held, err := store.Lock(t.Context(), r.Layout().Locks().Node(), "process 7 (podrun delete x) [named aa]", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Second, held.Unlock)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		said := slices.DeleteFunc(slices.Clone(r.Warnings()), func(w string) bool { return !strings.Contains(w, "waiting for process 7 (podrun delete x)") })
		if len(said) != 1 {
			t.Errorf("%q", r.Warnings())
		}
		r.MustDelete()
	})
}

// TestDeleteWithoutTheNodeLock covers a delete that finds no pod. It must not wait for a process
// that holds the node's lock, because it needs the lock only to remove old files.
func TestDeleteWithoutTheNodeLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		held, err := store.Lock(t.Context(), r.Layout().Locks().Node(), "process 7 (podrun apply x) [named aa]", nil)
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if _, err := run.DeletePods(t.Context(), r.Engine(), nil, run.DeleteOptions{}); err != nil || time.Since(begun) > time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		held.Unlock()
		r.MustDelete()
	})
}

// TestWarningsWithoutTheNodeLock covers a command that prints warnings of admission, including
// those about refused pods. Other podrun processes must not have to wait for the node's lock while
// it prints: the reader of the command's stderr, for example less, may have stopped reading.
func TestWarningsWithoutTheNodeLock(t *testing.T) {
	t.Parallel()
	const gate = "readinessGates: [{conditionType: example.com/ready}]"
	for name, spec := range map[string]string{
		"admitted": gate,
		"refused":  gate + "\nnodeSelector: {a: b}",
	} {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			e := r.Engine()
			warned := 0
			e.Warn = func(l problem.List) {
				for _, p := range l {
					if p.Field == "spec.readinessGates[0]" {
						warned++
					}
				}
				lock, err := store.TryLock(r.Layout().Locks().Node(), "process 7 (podrun apply x) [named aa]")
				if err != nil || lock == nil {
					t.Errorf("%s: the node is locked while the command prints %v: %v", name, l, err)
					return
				}
				lock.Unlock()
			}
			pod := rig.PodText("web", "Always", spec, "containers: [{name: app, image: registry.example/app:1}]")
			_, err := run.ApplyPods(t.Context(), e, rig.Load(t, pod), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
			if (err != nil) != (name == "refused") || warned != 1 {
				t.Errorf("%s: %d warnings, %v", name, warned, err)
			}
			r.Delete(run.DeleteOptions{})
			r.NothingLeft()
		})
	}
}
