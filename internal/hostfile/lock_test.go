package hostfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	first := open()
	if err := Lock(t.Context(), first, "another podrun"); err != nil {
		t.Fatal(err)
	}
	if err := Flock(open(), unix.LOCK_EX|unix.LOCK_NB); err != unix.EWOULDBLOCK {
		t.Errorf("a second lock: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("interrupted")
	cancel(why)
	if err := Lock(ctx, open(), "another podrun"); !errors.Is(err, why) || err.Error() != "wait for another podrun: interrupted" {
		t.Errorf("a wait that ended: %v", err)
	}
	first.Close()
	if err := Lock(t.Context(), open(), "another podrun"); err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
	closed := open()
	closed.Close()
	if err := Lock(t.Context(), closed, "another podrun"); !errors.Is(err, unix.EBADF) {
		t.Errorf("a closed file: %v", err)
	}
}

func TestIsDir(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dir: true, file: false, link: false, dir + "/none": false} {
		if IsDir(path) != want {
			t.Errorf("IsDir(%s) = %t", path, !want)
		}
	}
}

// TestUnlockWhileAProcessStarts checks that a lock is free after Unlock although another thread starts a process,
// which has a copy of the descriptor until it executes its program.
func TestUnlockWhileAProcessStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Lock(t.Context(), f, ""); err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	if !IsLocked(path) {
		t.Error("the lock is free before Unlock")
	}
	if err := Unlock(f); err != nil || IsLocked(path) {
		t.Errorf("the lock is held after Unlock; error %v", err)
	}
}
