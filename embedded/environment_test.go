package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/ring"
)

// newStore returns the layout of a store with an intact database.
func newStore(t *testing.T) Layout {
	t.Helper()
	l := ReadLayout(t.TempDir())
	if err := errors.Join(
		os.MkdirAll(filepath.Dir(l.metaDB()), 0o755),
		os.WriteFile(l.metaDB(), make([]byte, 16384), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestProbeStore(t *testing.T) {
	l := newStore(t)
	if err := probeStore(t.Context(), l); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(l.Containerd()); err != nil || len(entries) != 1 {
		t.Errorf("probeStore left files in the store: %v, %v", entries, err)
	}
}

// TestProbeLockedStore: another process has a database open.
func TestProbeLockedStore(t *testing.T) {
	l := newStore(t)
	other, err := os.Open(l.metaDB())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	// The fake clock of synctest skips lockWithin.
	synctest.Test(t, func(t *testing.T) {
		err := probeStore(t.Context(), l)
		if err == nil || !strings.Contains(err.Error(), l.metaDB()+" is locked by another process") {
			t.Errorf("got %v", err)
		}
	})
	if err := unix.Flock(int(other.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := probeStore(t.Context(), l); err != nil {
		t.Errorf("after the lock was released: %v", err)
	}
}

// TestProbeForbiddenStore: podrun may not read a database, or may not write to the store, as on a
// network file system that maps root to another user.
func TestProbeForbiddenStore(t *testing.T) {
	ring.RequireRoot(t)
	for name, mode := range map[string]struct{ store, database os.FileMode }{
		"database": {0o777, 0o600},
		"store":    {0o755, 0o666},
	} {
		t.Run(name, func(t *testing.T) {
			l := newStore(t)
			if err := errors.Join(os.Chmod(l.Containerd(), mode.store), os.Chmod(l.metaDB(), mode.database)); err != nil {
				t.Fatal(err)
			}
			if err := asNobody(t, func() error { return probeStore(t.Context(), l) }); !errors.Is(err, syscall.EACCES) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// asNobody calls a function on a thread whose accesses to files are those of a user without
// privileges.
func asNobody(t *testing.T, f func() error) error {
	t.Helper()
	// The directories of t.TempDir are readable for their owner only.
	for dir := t.TempDir(); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	result := make(chan error, 1)
	go func() {
		// The goroutine does not unlock the thread, so the runtime ends it with its user.
		runtime.LockOSThread()
		if err := unix.Setfsuid(65534); err != nil {
			result <- err
			return
		}
		result <- f()
	}()
	return <-result
}
