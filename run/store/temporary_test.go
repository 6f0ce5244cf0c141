package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/identity"
)

// TestNoTemporaryFileIsLeft: a process that was killed while it wrote the owner record
// or made a claim, as when its control group was out of memory, leaves a temporary file.
// The removal of the pod takes it away, and none of other pods.
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
	temporary := map[string]bool{ // and whether it stays
		filepath.Join(layout.Owners(), ".default_web.621076597"):     false,
		filepath.Join(layout.Claims(), ".default_web_3966333247"):    false,
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
	for path, stays := range temporary {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v, want it kept: %v", path, err, stays)
		}
	}
}
