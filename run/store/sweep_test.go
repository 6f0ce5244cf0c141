package store

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

// TestForgottenLocksStillExclude lets many goroutines repeatedly take one lock and remove its file.
// No two of them may hold the lock at the same time, and no file may remain.
func TestForgottenLocksStillExclude(t *testing.T) {
	layout := testLayout(t)
	id := identity.Pod{Namespace: "default", Name: "web"}
	var inside, taken atomic.Int64
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for range 50 {
				l, err := testLocks(layout).LockPod(t.Context(), id, PurposeRun)
				if err != nil {
					t.Error(err)
					return
				}
				if got := inside.Add(1); got != 1 {
					t.Errorf("%d goroutines hold the lock", got)
				}
				taken.Add(1)
				inside.Add(-1)
				if n%2 == 0 {
					l.Forget()
				} else {
					l.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if taken.Load() != 400 {
		t.Errorf("taken %d times", taken.Load())
	}
	last, err := testLocks(layout).LockPod(t.Context(), id, PurposeRun)
	if err != nil {
		t.Fatal(err)
	}
	last.Forget()
	last.Forget() // a second call has no effect
	if got := lockFiles(t, layout); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// TestSweepRemovesLocksOfPodsThatAreGone checks that locks do not accumulate on a CI host that runs
// pods with generated names for years.
func TestSweepRemovesLocksOfPodsThatAreGone(t *testing.T) {
	layout := testLayout(t)
	here := identity.Pod{Namespace: "default", Name: "here", UID: "u1"}
	if err := os.MkdirAll(string(layout.Pod(here.UID)), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := WriteCheckpoint(layout, here, manifest.Checkpoint{Pod: &corev1.Pod{}}); err != nil {
		t.Fatal(err)
	}
	held, err := testLocks(layout).LockPod(t.Context(), identity.Pod{Namespace: "default", Name: "being-made"}, PurposeRun)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Unlock()
	for n := range 3 {
		gone, err := testLocks(layout).LockPod(t.Context(), identity.Pod{Namespace: "default", Name: "gone-" + strconv.Itoa(n)}, PurposeRun)
		if err != nil {
			t.Fatal(err)
		}
		gone.Unlock()
	}
	kept, err := testLocks(layout).LockPod(t.Context(), here, PurposeRun)
	if err != nil {
		t.Fatal(err)
	}
	kept.Unlock()
	node, err := Lock(t.Context(), layout.Locks().Node(), "process 1 (podrun test)", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Unlock()
	if err := Sweep(layout); err != nil {
		t.Fatal(err)
	}
	if got, want := lockFiles(t, layout), []string{"default_being-made", "default_here", "node"}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
}

// lockFiles returns the names of the lock files.
func lockFiles(t *testing.T, layout identity.Layout) []string {
	t.Helper()
	entries, err := os.ReadDir(string(layout.Locks()))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestSweepAllLeavesNoRecord checks that no record of a pod remains, although Sweep keeps a single one. Before a killed
// podrun writes the pod's checkpoint, only its lock and its owner record exist.
func TestSweepAllLeavesNoRecord(t *testing.T) {
	layout := testLayout(t)
	killed, err := testLocks(layout).LockPod(t.Context(), identity.Pod{Namespace: "default", Name: "killed"}, PurposeRun)
	if err != nil {
		t.Fatal(err)
	}
	killed.Release()
	owner := identity.Pod{Namespace: "default", Name: "owned"}
	if err := os.MkdirAll(layout.Owners(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layout.Owner(owner), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := SweepAll(layout); err != nil {
		t.Fatal(err)
	}
	if got := lockFiles(t, layout); len(got) > 0 {
		t.Errorf("locks: %q", got)
	}
	if left, err := os.ReadDir(layout.Owners()); err != nil || len(left) > 0 {
		t.Errorf("owner records: %v, %v", left, err)
	}
}

// TestSweepReadsAllPodsForManyLocksOnly covers an apply, which holds the lock of a new pod that has no
// directory yet. It must not read the names of all pods because of this one lock.
func TestSweepReadsAllPodsForManyLocksOnly(t *testing.T) {
	layout := testLayout(t)
	for n := range 2 * sweepShare {
		id := identity.Pod{Namespace: "default", Name: "here-" + strconv.Itoa(n), UID: "u" + strconv.Itoa(n)}
		if err := os.MkdirAll(string(layout.Pod(id.UID)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := WriteCheckpoint(layout, id, manifest.Checkpoint{Pod: &corev1.Pod{}}); err != nil {
			t.Fatal(err)
		}
		writeLock(t, layout, id)
	}
	writeLock(t, layout, identity.Pod{Namespace: "default", Name: "node"}) // this pod has the same name as the node's lock
	for gone, left := range []int{1, 2, 0} {
		writeLock(t, layout, identity.Pod{Namespace: "default", Name: "gone-" + strconv.Itoa(gone)})
		if err := Sweep(layout); err != nil {
			t.Fatal(err)
		}
		have := slices.DeleteFunc(lockFiles(t, layout), func(name string) bool { return !strings.HasPrefix(name, "default_gone-") })
		if len(have) != left {
			t.Errorf("after %d locks of removed pods: %q, want %d", gone+1, have, left)
		}
	}
}

// writeLock creates the lock file of a pod, as a killed command leaves it.
func writeLock(t *testing.T, layout identity.Layout, id identity.Pod) {
	t.Helper()
	if err := os.MkdirAll(string(layout.Locks()), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(layout.Locks().Pod(id), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
