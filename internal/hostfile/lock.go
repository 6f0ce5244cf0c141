package hostfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/wait"
)

// longestLockPoll is the longest interval at which Lock tries again. Lock does not use a blocking
// flock(2), because the call cannot be interrupted: it would acquire the lock even after its caller
// has given up.
const longestLockPoll = 8 * time.Millisecond

// Lock acquires an exclusive lock on an open file or directory. It waits for other processes until ctx
// ends. If the lock is free, Lock acquires it even if ctx has already ended. Unlock releases the
// lock. If Lock fails, it closes f. If ctx ended the wait, the error contains holder.
//
// Between two attempts it sleeps in the kernel, not with a timer. The holder may be another process, so
// the simulated time of a testing/synctest test must not advance while Lock waits.
func Lock(ctx context.Context, f *os.File, holder string) error {
	for poll := longestLockPoll / 32; ; poll = wait.Next(poll, longestLockPoll/32, longestLockPoll) {
		err := Flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != unix.EWOULDBLOCK {
			_ = f.Close()
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if ctx.Err() != nil {
			_ = f.Close()
			return fmt.Errorf("wait for %s: %w", holder, ended(ctx))
		}
		interval := unix.NsecToTimespec(poll.Nanoseconds())
		// The error is ignored, because a signal only shortens the pause.
		_ = unix.Nanosleep(&interval, nil)
	}
}

// AwaitFlock calls flock(2) until it succeeds, for a wait that is bounded by a short timeout. If ctx ends, the error is
// EWOULDBLOCK. Unlike Lock, it sleeps with a timer and does not close f.
func AwaitFlock(ctx context.Context, f *os.File, how int) error {
	for {
		err := Flock(f, how|unix.LOCK_NB)
		if err != unix.EWOULDBLOCK || wait.Sleep(ctx, longestLockPoll) != nil {
			return err
		}
	}
}

// IsLocked reports whether a process holds the lock of the file or directory at path. It returns false if there is
// none.
func IsLocked(path string) bool {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer Unlock(f)
	return Flock(f, unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
}

// Unlock releases the lock of a file or directory and closes it. Closing alone does not release the lock while
// another thread starts a process: until the new process executes its program, it has a copy of the descriptor.
func Unlock(f *os.File) error {
	return errors.Join(Flock(f, unix.LOCK_UN), f.Close())
}

// Flock calls flock(2). It repeats the call if a signal interrupts it.
func Flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
