package run

import (
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/podrun/podrun/run/node"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
)

// TestForgottenLocksStillExclude lets many take one lock and remove its file
// again: never do two hold it, and nothing is left.
func TestForgottenLocksStillExclude(t *testing.T) {
	r := &rig{t: t, settings: testSettings(t.TempDir())}
	id := identity.Pod{Namespace: "default", Name: "web"}
	var inside, taken atomic.Int64
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for range 50 {
				l, err := r.lockOf(id)
				if err != nil {
					t.Error(err)
					return
				}
				if got := inside.Add(1); got != 1 {
					t.Errorf("%d hold the lock", got)
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
	last, err := r.lockOf(id)
	if err != nil {
		t.Fatal(err)
	}
	last.Forget()
	last.Forget() // twice is fine
	if got := lockFiles(t, r.layout()); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// TestSweepRemovesLocksOfPodsThatAreGone: a CI host runs pods of generated
// names for years.
func TestSweepRemovesLocksOfPodsThatAreGone(t *testing.T) {
	r := &rig{t: t, settings: testSettings(t.TempDir())}
	here := identity.Pod{Namespace: "default", Name: "here", UID: "u1"}
	if err := os.MkdirAll(r.layout().Pod(here.UID), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := store.WriteCheckpoint(r.layout(), here, manifest.Checkpoint{Pod: &corev1.Pod{}}); err != nil {
		t.Fatal(err)
	}
	held, err := r.lockOf(identity.Pod{Namespace: "default", Name: "being-made"})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Unlock()
	for n := range 3 {
		gone, err := r.lockOf(identity.Pod{Namespace: "default", Name: "gone-" + strconv.Itoa(n)})
		if err != nil {
			t.Fatal(err)
		}
		gone.Unlock()
	}
	kept, err := r.lockOf(here)
	if err != nil {
		t.Fatal(err)
	}
	kept.Unlock()
	e := &Engine{Node: node.Node{Settings: r.settings, Invocation: NewInvocation(), Command: "podrun test"}}
	if err := e.UnderNodeLock(t.Context(), func() error { return store.Sweep(r.layout()) }); err != nil {
		t.Fatal(err)
	}
	if got, want := lockFiles(t, r.layout()), []string{"default_being-made", "default_here", "node"}; !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
}

// lockFiles are the names of the files of locks.
func lockFiles(t *testing.T, layout identity.Layout) []string {
	t.Helper()
	entries, err := os.ReadDir(layout.Locks())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
