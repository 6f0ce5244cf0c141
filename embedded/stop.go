package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// termWithin is how long containerd gets to end after SIGTERM.
const termWithin = 10 * time.Second

// Stop ends a daemon: SIGTERM, then SIGKILL. Containers and their shims go on. It is
// called with the layout's lock held.
func Stop(ctx context.Context, l Layout, d *Daemon) error {
	if d.Alive() {
		if err := endProcess(ctx, d.PID, d.Alive, termWithin); err != nil {
			return fmt.Errorf("stop containerd (process %d): %w", d.PID, err)
		}
	}
	if err := os.Remove(l.Socket()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// endProcess ends a process that alive says is the one that is meant, and waits until it
// has. A pidfd keeps another process that gets its ID from being signaled.
func endProcess(ctx context.Context, pid int, alive func() bool, grace time.Duration) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pidfd_open: %w", err)
	}
	defer unix.Close(fd)
	if !alive() {
		return nil
	}
	for _, step := range []struct {
		signal unix.Signal
		within time.Duration
	}{{unix.SIGTERM, grace}, {unix.SIGKILL, termWithin}} {
		if step.within <= 0 {
			continue
		}
		if err := unix.PidfdSendSignal(fd, step.signal, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
		ended, err := awaitExit(ctx, fd, step.within, 100*time.Millisecond)
		if err != nil || ended {
			return err
		}
	}
	return errors.New("it does not end by SIGKILL")
}

// AwaitEnd waits until a daemon has ended, at most for a time, and reports whether it
// has.
func AwaitEnd(ctx context.Context, d *Daemon, within time.Duration) (bool, error) {
	if !d.Alive() {
		return true, nil
	}
	fd, err := unix.PidfdOpen(d.PID, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH), nil
	}
	defer unix.Close(fd)
	if !d.Alive() {
		return true, nil
	}
	return awaitExit(ctx, fd, within, within)
}

// awaitExit waits until the process of a pidfd has ended. The end of ctx is noticed after
// every slice of the time: a process that waits for long should not wake up often.
func awaitExit(ctx context.Context, fd int, within, slice time.Duration) (bool, error) {
	for deadline := time.Now().Add(within); ; {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		left := min(time.Until(deadline), slice)
		if left <= 0 {
			return false, nil
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return false, err
		}
		if n > 0 {
			return true, nil
		}
	}
}
