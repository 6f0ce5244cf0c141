package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/internal/identity"
)

// TestNoTemporaryFileIsLeft covers a process that was killed while it wrote the owner record or
// created a claim, for example because its cgroup was out of memory. Such a process leaves a
// temporary file behind. The removal of the pod must also remove this file, but not the files of
// other pods.
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
	// true if the file remains
	temporary := map[string]bool{
		filepath.Join(layout.Owners(), ".default_web.621076597"):  false,
		filepath.Join(layout.Claims(), ".default_web_3966333247"): false,
		// This file is complete, but no owner record names it.
		filepath.Join(layout.Claims(), "default_web_3966333248"):     false,
		filepath.Join(layout.Claims(), "default_web.5_3966333248"):   true,
		filepath.Join(layout.Owners(), ".default_web.5.621076597"):   true, // belongs to pod web.5
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
	// The sweep removes this file.
	delete(temporary, filepath.Join(layout.Claims(), "default_web.5_3966333248"))
	for path, stays := range temporary {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v, want it kept: %v", path, err, stays)
		}
	}
}

// TestNoOwnerOfAnUncreatedPodIsLeft covers a command that was killed after it had become the owner of a
// replacement, and before it created the replacement's directory. The removal of the old pod must also
// remove the owner record and the claim. If the directory exists, they must remain until the replacement
// is removed.
func TestNoOwnerOfAnUncreatedPodIsLeft(t *testing.T) {
	for _, made := range []bool{false, true} {
		layout := testLayout(t)
		id := identity.Pod{Namespace: "default", Name: "web", UID: "old"}
		killed, err := testLocks(layout).LockPod(t.Context(), id, PurposeRun)
		if err == nil {
			err = killed.Acquire("new", PurposeRun, true, true)
		}
		if err == nil && made {
			err = os.MkdirAll(string(layout.Pod("new")), 0o750)
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
