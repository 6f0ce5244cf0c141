package embedded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// termWithin is how long containerd may take to exit after SIGTERM.
const termWithin = 10 * time.Second

// Stop terminates a daemon with SIGTERM, then SIGKILL. Containers and their shims continue to
// run. The caller must hold the layout's lock.
func Stop(ctx context.Context, l Layout, d *Daemon) error {
	if d.Alive() {
		if err := endProcess(ctx, d.PID, d.Alive, termWithin); err != nil {
			return fmt.Errorf("stop containerd (process %d): %w", d.PID, err)
		}
	}
	return removeIfExists(l.Socket())
}

// endProcess terminates a process and waits until it has exited. alive reports whether the
// process with this PID is still the intended one. The pidfd prevents signals to a later
// process with the same PID.
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
	return errors.New("it did not exit after SIGKILL")
}

// AwaitEnd waits for a daemon to exit, at most for the time within. It reports whether the
// daemon has exited.
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

// awaitExit waits until the process of a pidfd has exited. It checks ctx only after each slice
// of time, so that a long wait causes few wakeups.
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
