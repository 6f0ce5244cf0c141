package store

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
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
)

// FileLock is a flock(2) on a file whose content names the lock's holder. The kernel releases it when
// the process ends.
type FileLock struct {
	File *os.File // nil if the file system is read-only and does not contain the lock file
	// Before is the content that the file had when the lock was taken: the name of the last
	// holder.
	Before string
}

// If another process holds a lock, podrun tries again after firstLockPoll, and then at increasing
// intervals. A process holds the node's lock for a few milliseconds, and a pod's lock for longer.
const (
	firstLockPoll   = time.Millisecond
	SlowestLockPoll = 10 * time.Millisecond
	// reportLockAfter is how long a process waits before it reports which process holds the lock.
	reportLockAfter = 500 * time.Millisecond
)

// Lock acquires the lock at path. It waits until ctx ends. When it has the lock, it writes who into
// the file. After it has waited for half a second, it calls waiting once with the name of the holder.
// waiting may be nil. If --timeout ends the wait, the error is a *problem.Error of kind Deadline.
// Otherwise it wraps the cause of ctx.
func Lock(ctx context.Context, path, who string, waiting func(holder string)) (*FileLock, error) {
	return AwaitLock(ctx, path, waiting, func() (*FileLock, error) { return TryLock(path, who) })
}

// AwaitLock calls try until try returns a lock or an error, or until ctx ends. AwaitLock reads the
// holder's name from the lock file at path. It passes the name to waiting, and uses it in errors.
// The errors are those of Lock.
func AwaitLock(ctx context.Context, path string, waiting func(holder string), try func() (*FileLock, error)) (*FileLock, error) {
	poll, since := firstLockPoll, time.Now()
	for reported := false; ; poll = min(poll*3/2, SlowestLockPoll) {
		held, err := try()
		if held != nil || err != nil {
			return held, err
		}
		if !reported && waiting != nil && time.Since(since) >= reportLockAfter {
			waiting(ShownHolder(Holder(path)))
			reported = true
		}
		if wait.Sleep(ctx, poll) != nil {
			return nil, LockWaitEnded(ctx, ShownHolder(Holder(path)))
		}
	}
}

// TryLock takes the lock at path. It returns nil if another process holds it.
func TryLock(path, who string) (*FileLock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, fmt.Errorf("create the lock directory: %w", err)
	}
	f, err := LockFile(path)
	if f == nil || err != nil {
		return nil, err
	}
	before := Holder(path)
	if err := writeHolder(f, who); err != nil {
		_ = hostfile.Unlock(f)
		return nil, err
	}
	return &FileLock{File: f, Before: before}, nil
}

// TryLockReadOnly is TryLock for removals, which must work on a full or read-only file system: it
// locks an existing file without writing to it. If the file does not exist, it returns a FileLock
// without a file, because no other command can have locked the pod since a sweep removed the lock
// file.
func TryLockReadOnly(path, who string) (*FileLock, error) {
	l, err := TryLock(path, who)
	if !CannotWrite(err) {
		return l, err
	}
	f, err := FlockFile(path, unix.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &FileLock{}, nil
	case f == nil || err != nil:
		return nil, err
	}
	return &FileLock{File: f, Before: Holder(path)}, nil
}

// CannotWrite reports whether an error means that the file system is read-only or
// full (EROFS, ENOSPC, EDQUOT).
func CannotWrite(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// LockFile creates, opens and locks the file at path. It returns nil if another process holds its
// lock.
func LockFile(path string) (*os.File, error) {
	return FlockFile(path, unix.O_RDWR|unix.O_CREAT)
}

// FlockFile opens and locks the file at path. It returns nil if another process holds its lock. If
// the last holder removed the file between open and flock, FlockFile tries again. Otherwise two
// processes could hold locks on two different files.
func FlockFile(path string, flags int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		err = hostfile.Flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		var stat unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &stat); err == nil && stat.Nlink > 0 {
			return f, nil
		}
		f.Close()
	}
}

// LockWaitEnded returns the error for a wait for a lock, after ctx has ended. The argument holder is the result
// of ShownHolder. If --timeout ended the wait, the error is a *problem.Error of kind Deadline. Otherwise it
// wraps the cause of ctx.
func LockWaitEnded(ctx context.Context, holder string) error {
	err := fmt.Errorf("wait for %s: %w", holder, context.Cause(ctx))
	if _, timeout := errors.AsType[problem.TimeoutError](err); timeout {
		return &problem.Error{Kind: problem.Deadline, Err: err, Hint: "increase --timeout, or stop the other podrun process"}
	}
	return err
}

// writeHolder replaces the content of the file with the holder's name. It does not truncate the file
// first, because ext4 would then write the file to disk when the process closes it (auto_da_alloc).
func writeHolder(f *os.File, who string) error {
	if _, err := f.WriteAt([]byte(who), 0); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	if err := f.Truncate(int64(len(who))); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	return nil
}

// maxHolder is the maximum size of a lock file's content, in bytes.
const maxHolder = 64 << 10

// Unlock releases the lock. It does not remove the file.
func (l *FileLock) Unlock() {
	if l != nil && l.File != nil {
		_ = hostfile.Unlock(l.File) // fails only if it is unlocked already
	}
}
