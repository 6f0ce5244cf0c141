package store

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/internal/identity"
)

// TestOwnerKnowsThatTheLastOneWasKilled checks that the next owner detects a kill by the claim of the
// killed process. A killed process leaves its claim behind, and a sweep keeps the claim until the next
// owner has read it. A process that exits normally removes its claim. Further owners that follow soon must
// also detect the kill, because the next owner may lose the pod before the runtime has completed the call
// of the killed process.
func TestOwnerKnowsThatTheLastOneWasKilled(t *testing.T) {
	id := identity.Pod{Namespace: "default", Name: "web", UID: "u"}
	for _, killed := range []bool{false, true} {
		layout := testLayout(t)
		acquire := func() *PodLock {
			t.Helper()
			l, err := testLocks(layout).LockPod(t.Context(), id, PurposeRun)
			if err == nil {
				err = l.Acquire(id.UID, PurposeRun, true, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		first := acquire()
		// Like a kill, this only closes the process's files.
		if killed {
			first.Claim.file.Close()
			first.Unlock()
		} else {
			first.Release()
		}
		if err := os.MkdirAll(string(layout.Pod(id.UID)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(layout.Pod(id.UID).Checkpoint(), []byte(identity.CheckpointHead+"default/web\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Sweep(layout); err != nil {
			t.Fatal(err)
		}
		second := acquire()
		if second.Killed != killed {
			t.Errorf("killed: %v, want %v", second.Killed, killed)
		}
		second.Release()
		third := acquire()
		if third.Killed != killed {
			t.Errorf("the owner after the next one: killed: %v, want %v", third.Killed, killed)
		}
		if err := third.Update(func(r *OwnerRecord) {
			if r.KilledAt != nil {
				*r.KilledAt = r.KilledAt.Add(-2 * lateCalls)
			}
		}); err != nil {
			t.Fatal(err)
		}
		third.Release()
		fourth := acquire()
		if fourth.Killed {
			t.Error("an owner counts as killed long after the kill")
		}
		fourth.Release()
		if left, _ := os.ReadDir(layout.Claims()); len(left) > 0 {
			t.Errorf("%d claims are left", len(left))
		}
	}
}

// TestSweepOfAPodWithoutCheckpoint covers a podrun process that was killed before it wrote the
// checkpoint. It leaves a directory, an owner record and a claim behind.
func TestSweepOfAPodWithoutCheckpoint(t *testing.T) {
	layout := testLayout(t)
	id := identity.Pod{Namespace: "default", Name: "web", UID: "u"}
	l, err := testLocks(layout).LockPod(t.Context(), id, PurposeRun)
	if err == nil {
		err = l.Acquire(id.UID, PurposeRun, true, true)
	}
	if err == nil {
		err = os.MkdirAll(filepath.Join(string(layout.Pod(id.UID)), "volumes"), 0o750)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Claim.file.Close()
	l.Unlock()
	node, err := Lock(t.Context(), layout.Locks().Node(), "process 1 (podrun test)", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Unlock()
	if err := Sweep(layout); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{layout.PodsDir(), layout.Owners(), layout.Claims()} {
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s is left in %s", left[0].Name(), dir)
		}
	}
}

// TestUnreleasedAreKept checks that the owner records of all later pods with the same name list a
// sandbox that could not be stopped, until it is released. They also list a sandbox that an owner
// was stopping when it was killed.
func TestUnreleasedAreKept(t *testing.T) {
	layout := testLayout(t)
	acquire := func(uid string) *PodLock {
		t.Helper()
		l, err := testLocks(layout).LockPod(t.Context(), identity.Pod{Namespace: "default", Name: "web", UID: uid}, PurposeRun)
		if err == nil {
			err = l.Acquire(uid, PurposeRun, true, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	l := acquire("u")
	l.NoteUnreleased([]string{"s0"})
	if err := l.Update(func(r *OwnerRecord) { r.Ending = map[string]time.Time{"s1": time.Now()} }); err != nil {
		t.Fatal(err)
	}
	l.Release()
	// This owner was not killed.
	l = acquire("u")
	if diff := cmp.Diff([]string{"s0"}, l.Unreleased); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	l.Claim.file.Close()
	l.Unlock()
	l = acquire("v")
	if diff := cmp.Diff([]string{"s0", "s1"}, l.Unreleased); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	l.NoteReleased([]string{"s0", "s1"})
	l.Release()
	l = acquire("v")
	defer l.Release()
	if len(l.Unreleased) > 0 {
		t.Errorf("left: %v", l.Unreleased)
	}
}
