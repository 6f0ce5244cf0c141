package safepath

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/ring"
)

// TestUnmountBusy checks that the attempts to unmount a busy mount do not advance simulated time, in which they would
// all take place before the process that uses the mount can run; and that they end with the context.
func TestUnmountBusy(t *testing.T) {
	ring.RequireRoot(t)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(base, unix.MNT_DETACH) })
	used, err := os.Create(filepath.Join(base, "used"))
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	root, err := unix.Open(filepath.Dir(base), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := UnmountBelow(t.Context(), root, filepath.Dir(base), base); !errors.Is(err, unix.EBUSY) {
			t.Errorf("%v, want EBUSY", err)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("simulated time has advanced by %s", took)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped")
		cancel(stopped)
		if err := UnmountBelow(ctx, root, filepath.Dir(base), base); !errors.Is(err, unix.EBUSY) || !errors.Is(err, stopped) {
			t.Errorf("%v, want EBUSY and the cause of the context", err)
		}
	})
	if err := used.Close(); err != nil {
		t.Fatal(err)
	}
	if err := UnmountBelow(t.Context(), root, filepath.Dir(base), base); err != nil {
		t.Error(err)
	}
}
