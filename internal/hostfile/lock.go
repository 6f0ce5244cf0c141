package hostfile

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/wait"
)

// lockPoll is the interval at which Lock tries again. A blocking flock(2) cannot be interrupted: an abandoned
// call would acquire the lock later, although its caller has given up.
const lockPoll = 5 * time.Millisecond

// Lock acquires an exclusive lock on an open file or directory. It waits for other processes
// until ctx ends; it acquires a free lock even if ctx has already ended. Closing f releases
// the lock. If Lock fails, it closes f; the error of an ended wait contains holder.
func Lock(ctx context.Context, f *os.File, holder string) error {
	for {
		err := Flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return nil
		}
		if err != unix.EWOULDBLOCK {
			_ = f.Close()
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if wait.Sleep(ctx, lockPoll) != nil {
			_ = f.Close()
			return fmt.Errorf("wait for %s: %w", holder, context.Cause(ctx))
		}
	}
}

// Flock is flock(2), repeated if a signal interrupts it.
func Flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}
