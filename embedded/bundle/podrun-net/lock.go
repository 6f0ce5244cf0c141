package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockDir is the directory that podrun-nets of this host lock. Only root can open it.
	lockDir = "/run/podrun/podrun-net"
	// namespaceFile is what podrun-net locked before it had lockDir. Every user can open
	// it, also from a container in the host's network, and therefore lock it.
	namespaceFile = "/proc/self/ns/net"

	// lockLimit bounds the wait for another podrun-net: each holds the lock for
	// milliseconds.
	lockLimit = 20 * time.Second
	// namespaceLimit bounds the wait for an older podrun-net, which holds its lock for
	// milliseconds, too. It is also the delay that any user can cause.
	namespaceLimit = 200 * time.Millisecond
)

// errLocked reports that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lock excludes other podrun-nets from the rules, since the number of attachments of a
// network must not change before its table is removed. The kernel releases the lock when
// the process ends.
//
// podrun-nets of two releases run at the same time while a runtime is upgraded: a plugin
// outlives the containerd that started it. An older one only locks the network namespace.
// Therefore lock also locks the namespace, but continues without that lock after
// namespaceLimit, because the holder may be any user: the rules of two plugins that run
// at once are then wrong only if one removes a network's last attachment while the other,
// older one adds an attachment.
func lock() (unlock func(), err error) {
	dir, err := openLock()
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		// Deleting a pod must work on a file system that cannot be written.
		dir, err = nil, nil
	}
	if err == nil && dir != nil {
		if err = flock(dir, lockLimit); err != nil {
			_ = dir.Close()
		}
	}
	if err != nil {
		if errors.Is(err, errLocked) {
			err = fmt.Errorf("another podrun-net holds it for more than %s: end that process", lockLimit)
		}
		return nil, fmt.Errorf("lock %s: %w", lockDir, err)
	}
	namespace, err := os.Open(namespaceFile)
	if err == nil {
		_ = flock(namespace, namespaceLimit) // see above
	}
	return func() {
		for _, f := range []*os.File{namespace, dir} {
			if f != nil {
				_ = f.Close() // which unlocks it
			}
		}
	}, nil
}

// openLock creates and opens lockDir, and its parent. Both must belong to root and be
// inaccessible to other users, who could hold the lock otherwise.
func openLock() (*os.File, error) {
	var dir *os.File
	for _, path := range []string{filepath.Dir(lockDir), lockDir} {
		if dir != nil {
			_ = dir.Close()
		}
		if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		var err error
		if dir, err = os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
			return nil, err
		}
		var st unix.Stat_t
		if err = unix.Fstat(int(dir.Fd()), &st); err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0) {
			err = fmt.Errorf("%s has owner %d and mode %03o, want %d and 700: remove it", path, st.Uid, st.Mode&0o777, os.Geteuid())
		}
		if err != nil {
			_ = dir.Close()
			return nil, err
		}
	}
	return dir, nil
}

// flock locks a file within a limit; the error is errLocked after it.
func flock(f *os.File, limit time.Duration) error {
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return err
		case time.Since(start) > limit:
			return errLocked
		}
	}
}
