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

// lockDir is the directory that all podrun-net processes of a node lock. Only root can open it; with the
// setting rootless, it is another one (enterNode), and root is the user.
var lockDir = "/run/podrun/podrun-net"

const (
	// namespaceFile is the file that releases without lockDir lock. Every user, even in a hostNetwork
	// container, can open and lock it.
	namespaceFile = "/proc/self/ns/net"

	// lockLimit limits the wait for another podrun-net process, which holds the lock for
	// milliseconds.
	lockLimit = 20 * time.Second
	// namespaceLimit limits the wait for an older podrun-net process, which also holds its lock
	// for milliseconds. It is also the maximum delay that any user can cause.
	namespaceLimit = 200 * time.Millisecond
)

// errLocked reports that another process holds a lock.
var errLocked = errors.New("locked by another process")

// lock prevents other podrun-net processes from changing the rules at the same time. Otherwise
// a network could get an attachment while its table is being removed. The kernel releases the
// lock when the process exits.
//
// While a runtime is being upgraded, two releases of podrun-net may run at the same time, because a
// plugin outlives the containerd that started it. An older release locks only the network
// namespace, so lock also locks the namespace. After namespaceLimit, it continues without that
// lock, because any user may hold it. Concurrent changes are then wrong only in one case: one
// plugin removes the last attachment of a network while the other, older one adds an attachment.
func lock() (unlock func(), err error) {
	dir, err := openLock()
	if errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		// It must be possible to delete a pod on a read-only file system.
		dir, err = nil, nil
	}
	if err == nil && dir != nil {
		if err = flock(dir, lockLimit); err != nil {
			_ = dir.Close()
		}
	}
	if err != nil {
		if errors.Is(err, errLocked) {
			err = fmt.Errorf("another podrun-net process has held the lock for more than %s: terminate that process", lockLimit)
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
				_ = f.Close() // closing unlocks it
			}
		}
	}, nil
}

// openLock creates and opens lockDir and its parent. Both must belong to root, and other users
// must have no access. Otherwise they could hold the lock.
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
			err = fmt.Errorf("%s has owner %d and mode %03o, but must have owner %d and mode 700: remove it", path, st.Uid, st.Mode&0o777, os.Geteuid())
		}
		if err != nil {
			_ = dir.Close()
			return nil, err
		}
	}
	return dir, nil
}

// flock locks a file. It returns errLocked when the limit expires.
func flock(f *os.File, limit time.Duration) error {
	return within(limit, func() error {
		for {
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
}

// within calls lock, which waits without a limit and in the order of the requests, and
// returns errLocked when the limit expires. The process then exits soon: a lock that it
// acquires later is released at once.
func within(limit time.Duration, lock func() error) error {
	done := make(chan error, 1)
	go func() { done <- lock() }()
	select {
	case err := <-done:
		return err
	case <-time.After(limit):
		return errLocked
	}
}
