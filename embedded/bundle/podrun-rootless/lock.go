package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// checkRunDir refuses a run directory that another user could have created (it may be in /tmp).
func checkRunDir(dir string) error {
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return fmt.Errorf("the run directory %q is not an absolute path", dir)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return fmt.Errorf("run directory %s: %w", dir, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 {
		return fmt.Errorf("run directory %s: it must be a directory of the user, with mode 700: remove it", dir)
	}
	return nil
}

// acquireLock returns the record of the process that is ready, or the lock. The holder changes the lock from exclusive to shared when it is ready, so a wait for
// a shared lock ends when the holder is ready, and when it has died.
func acquireLock(o options) (*record, *os.File, error) {
	f, err := os.OpenFile(filepath.Join(o.runDir, "rootless.lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nil, err
	}
	for {
		err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil, f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil, err
		}
		if err := flock(f, unix.LOCK_SH); err != nil {
			return nil, nil, err
		}
		if r, err := readRecord(o.runDir); err == nil && r.alive() {
			return r, nil, f.Close()
		}
		if err := flock(f, unix.LOCK_UN); err != nil {
			return nil, nil, err
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
