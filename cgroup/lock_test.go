package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// lockPlan returns a plan whose lock is in a new directory.
func lockPlan(t *testing.T) Plan {
	return Plan{Version: 1, Mounts: map[string]string{"cpu": t.TempDir()}, Lock: filepath.Join(t.TempDir(), "podrun", "cgroups")}
}

// TestLockOfTheMountDelaysNothing (D6) checks that a user who locks a directory of the cgroup file
// system does not delay podrun.
func TestLockOfTheMountDelaysNothing(t *testing.T) {
	p := lockPlan(t)
	mount, err := os.Open(p.Mounts["cpu"])
	if err != nil {
		t.Fatal(err)
	}
	defer mount.Close()
	if err := unix.Flock(int(mount.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := patience.Context(t.Context(), patience.OnFake)
	defer cancel()
	unlock, err := p.lockShared(ctx)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestLockSharedKeepsOthersOut(t *testing.T) {
	p := lockPlan(t)
	unlock, err := p.lockShared(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := p.lockShared(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second lock: %v", err)
	}
	unlock()
	again, err := p.lockShared(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	again()
	if info, err := os.Stat(p.Lock); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the lock: %v, %v", info, err)
	}
}

// TestLockSharedRefusesWhatOthersCanReach checks that only root can create, replace or hold the
// lock.
func TestLockSharedRefusesWhatOthersCanReach(t *testing.T) {
	ring.RequireRoot(t)
	for name, prepare := range map[string]func(dir string) error{
		"a directory that others can open":  func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)) },
		"a directory that others can write": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o720)) },
		"another user's directory":          func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, 0)) },
		"a link":                            func(dir string) error { return errors.Join(os.Mkdir(dir+"-", 0o700), os.Symlink(dir+"-", dir)) },
		"a file":                            func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"a FIFO":                            func(dir string) error { return unix.Mkfifo(dir, 0o600) },
	} {
		for _, outer := range []bool{true, false} {
			p := lockPlan(t)
			at := p.Lock
			if outer {
				at = filepath.Dir(p.Lock)
			} else if err := os.Mkdir(filepath.Dir(p.Lock), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := prepare(at); err != nil {
				t.Fatal(err)
			}
			if unlock, err := p.lockShared(t.Context()); err == nil {
				unlock()
				t.Errorf("%s (outer: %v): no error", name, outer)
			} else if !strings.Contains(err.Error(), at) {
				t.Errorf("%s (outer: %v): the error does not name %s: %v", name, outer, at, err)
			}
		}
	}
}
