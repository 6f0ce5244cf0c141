package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/internal/identity"
)

// TestNoTemporaryFileIsLeft: a process that was killed while it wrote the owner record or created a
// claim, for example because its cgroup was out of memory, leaves a temporary file. The removal of the
// pod also removes this file, but not those of other pods.
func TestNoTemporaryFileIsLeft(t *testing.T) {
	layout := testLayout(t)
	id := identity.Pod{Namespace: "default", Name: "web", UID: "u"}
	l, err := testLocks(layout).LockPod(t.Context(), id, PurposeRemove)
	if err == nil {
		err = l.Acquire(id.UID, PurposeRemove, false, false)
	}
	if err != nil {
		t.Fatal(err)
	}
	temporary := map[string]bool{ // the value is true if the file remains
		filepath.Join(layout.Owners(), ".default_web.621076597"):     false,
		filepath.Join(layout.Claims(), ".default_web_3966333247"):    false,
		filepath.Join(layout.Claims(), "default_web_3966333248"):     false, // complete, but not in an owner record
		filepath.Join(layout.Claims(), "default_web.5_3966333248"):   true,
		filepath.Join(layout.Owners(), ".default_web.5.621076597"):   true, // pod web.5
		filepath.Join(layout.Owners(), ".default_web-2.621076597"):   true,
		filepath.Join(layout.Claims(), ".default_web.5_3966333247"):  true,
		filepath.Join(layout.Claims(), ".default-2_web_3966333247"):  true,
		filepath.Join(layout.Owners(), ".default_webserver.6210765"): true,
	}
	for path := range temporary {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Disown(); err != nil {
		t.Fatal(err)
	}
	l.Forget()
	for path, stays := range temporary {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("after the removal: %s: %v, want it kept: %v", path, err, stays)
		}
	}
	reservation := filepath.Join(layout.Reservations(), ".2490658966")
	temporary[reservation] = false
	if err := os.MkdirAll(layout.Reservations(), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(reservation, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Sweep(layout); err != nil {
		t.Fatal(err)
	}
	delete(temporary, filepath.Join(layout.Claims(), "default_web.5_3966333248")) // removed by the sweep
	for path, stays := range temporary {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v, want it kept: %v", path, err, stays)
		}
	}
}

// TestNoOwnerOfAnUncreatedPodIsLeft: a command was killed after it had become the owner of a replacement
// and before it created the replacement's directory. The removal of the old pod also removes the owner
// record and the claim. If the directory exists, they remain until the replacement is removed.
func TestNoOwnerOfAnUncreatedPodIsLeft(t *testing.T) {
	for _, made := range []bool{false, true} {
		layout := testLayout(t)
		id := identity.Pod{Namespace: "default", Name: "web", UID: "old"}
		killed, err := testLocks(layout).LockPod(t.Context(), id, PurposeRun)
		if err == nil {
			err = killed.Acquire("new", PurposeRun, true, true)
		}
		if err == nil && made {
			err = os.MkdirAll(layout.Pod("new"), 0o750)
		}
		if err != nil {
			t.Fatal(err)
		}
		killed.Claim.file.Close()
		killed.Unlock()
		l, err := testLocks(layout).LockPod(t.Context(), id, PurposeRemove)
		if err == nil {
			err = l.Acquire(id.UID, PurposeRemove, false, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Forget()
		for _, dir := range []string{layout.Owners(), layout.Claims()} {
			if left, _ := os.ReadDir(dir); (len(left) > 0) != made {
				t.Errorf("directory created: %v: %d files are left in %s", made, len(left), dir)
			}
		}
	}
}
