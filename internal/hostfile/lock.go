package hostfile

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Lock acquires an exclusive lock on an open file or directory. It waits for other processes
// until ctx ends; it acquires a free lock even if ctx has already ended. Closing f releases
// the lock. If Lock fails, it closes f, because the system call may still be waiting; the
// error then contains holder.
func Lock(ctx context.Context, f *os.File, holder string) error {
	if Flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		return nil
	}
	locked := make(chan error, 1)
	go func() { locked <- Flock(f, unix.LOCK_EX) }()
	select {
	case err := <-locked:
		if err != nil {
			_ = f.Close()
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil
	case <-ctx.Done():
		go func() { <-locked; _ = f.Close() }()
		return fmt.Errorf("wait for %s: %w", holder, context.Cause(ctx))
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
