package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// fileLock is a flock(2) on a file that says who holds it. The kernel frees it
// when its process ends, however it ends.
type fileLock struct {
	file *os.File
}

// lockPoll is how often a lock that is held is tried again.
const lockPoll = 10 * time.Millisecond

// lock takes the lock at path, waiting until ctx ends. Who writes "PID COMMAND"
// into it; waiting is called once, with the holder's words, if it has to wait.
func lock(ctx context.Context, path, who string, waiting func(holder string)) (*fileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of locks: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for said := false; ; {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		if !said && waiting != nil {
			waiting(holder(path))
			said = true
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("wait for %s: %w", holder(path), context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
	if err := writeHolder(f, who); err != nil {
		f.Close()
		return nil, err
	}
	return &fileLock{file: f}, nil
}

func writeHolder(f *os.File, who string) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(who), 0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	return nil
}

// holder says who holds the lock at path, as well as can be told.
func holder(path string) string {
	data, err := os.ReadFile(path)
	if who := strings.TrimSpace(string(data)); err == nil && who != "" {
		return who
	}
	return "another podrun"
}

// unlock frees the lock. The file stays: removing it would let two processes
// hold "the" lock on two files.
func (l *fileLock) unlock() {
	if l != nil {
		l.file.Close()
	}
}
