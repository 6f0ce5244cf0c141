package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
)

// lockWithin is the maximum time for which a removal waits for the lock.
const lockWithin = 30 * time.Second

// lockShared excludes other podrun processes from the cgroups that pods share. Unlike the node's lock, which
// is for one root directory, this lock is for the whole host. The kernel releases the lock when the process
// exits. lockShared locks a directory that only root can open, because any user could open and lock a
// directory of the cgroup file system.
func (p Plan) lockShared(ctx context.Context) (unlock func(), err error) {
	if len(p.Mounts) == 0 {
		// there are no shared cgroups
		return func() {}, nil
	}
	dir, err := openLock(p.Lock)
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		// podrun must be able to delete a pod even if the file system is not writable. If another
		// podrun process changes the same cgroups concurrently, a weight may be wrong until the next
		// change, which is the only effect.
		return func() {}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("lock the cgroups that pods share: %w", err)
	}
	if err := hostfile.Lock(ctx, dir, "another podrun process to change the cgroups that pods share"); err != nil {
		return nil, err
	}
	if err := p.markInterrupted(ctx); err != nil {
		_ = hostfile.Unlock(dir)
		return nil, err
	}
	p.markRecreated(ctx)
	return func() { _ = hostfile.Unlock(dir) }, nil
}

// openLock opens the lock directory. If necessary, it creates this directory and its parent.
// Both must belong to this user, and others must have no access. Otherwise another user could
// replace the directory or hold the lock.
func openLock(path string) (*os.File, error) {
	var dir *os.File
	for _, at := range []string{filepath.Dir(path), path} {
		if err := os.Mkdir(at, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		f, err := os.OpenFile(at, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if dir != nil {
			_ = dir.Close()
		}
		if err != nil {
			return nil, err
		}
		dir = f
		var st unix.Stat_t
		if err = unix.Fstat(int(f.Fd()), &st); err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0) {
			err = fmt.Errorf("%s has owner %d and mode %03o, but must have owner %d and mode 700: remove it", at, st.Uid, st.Mode&0o777, os.Geteuid())
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return dir, nil
}

// underLock calls do while holding the lock on the shared groups. If there are no shared groups, it
// does nothing. It waits for the lock for up to lockWithin, or until ctx ends. If the lock is free,
// underLock acquires it even if ctx has already ended.
func (p Plan) underLock(ctx context.Context, op string, do func() error) error {
	if len(p.Shared) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	unlock, err := p.lockShared(ctx)
	if err != nil {
		return failed(p.Shared[0], op, err)
	}
	defer unlock()
	return do()
}
