package run

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cri"
)

// How a container's end is noticed. A pidfd wakes podrun at the exit itself;
// the runtime says so some 25 ms later, and is then asked every settlePoll.
// Where no pid is known, the runtime is asked more and more rarely; where one
// is, the same polling goes on slowly as a safeguard.
const (
	settlePoll    = 2 * time.Millisecond
	settleTime    = 500 * time.Millisecond
	firstPoll     = 5 * time.Millisecond
	slowestPoll   = 15 * time.Millisecond
	safeguardPoll = time.Second
)

// watchExit waits until the container is no longer running, and returns it as
// it is then. It ends early with ctx's error.
func watchExit(ctx context.Context, client *cri.Client, c Container) (Container, error) {
	exited := make(chan struct{})
	stop, armed := watchPID(c.PID, exited)
	defer stop()
	poll := firstPoll
	var settle time.Time
	for {
		now, err := observeContainer(ctx, client, c.ID, c.SandboxID)
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		if err != nil {
			return c, err
		}
		if now.State != Running {
			return now, nil
		}
		wait := poll
		switch {
		case time.Now().Before(settle):
			wait = settlePoll
		case armed:
			wait = safeguardPoll
		default:
			poll = min(poll*5/4, slowestPoll)
		}
		select {
		case <-ctx.Done():
			return now, context.Cause(ctx)
		case <-time.After(wait):
		case <-exited:
			exited, armed, settle = nil, false, time.Now().Add(settleTime)
		}
	}
}

// watchPID closes exited when the process ends. It reports false when it can't
// watch: no pid, one that is gone, or a kernel without pidfd.
func watchPID(pid int, exited chan<- struct{}) (stop func(), armed bool) {
	if pid <= 0 {
		return func() {}, false
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return func() {}, false
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(fd)
		return func() {}, false
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(wake), Events: unix.POLLIN}}
		for {
			_, err := unix.Poll(fds, -1)
			if err == unix.EINTR {
				continue
			}
			if err == nil && fds[0].Revents != 0 {
				close(exited)
			}
			return
		}
	}()
	return func() {
		// Waking the poll can only fail if the counter is full: it is not.
		_, _ = unix.Write(wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		<-done
		unix.Close(fd)
		unix.Close(wake)
	}, true
}

// waitAny waits until one of the watched containers ends or until comes, and
// takes the container's new state in.
func waitAny(ctx context.Context, client *cri.Client, obs *Observed, d Decision) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !d.Until.IsZero() {
		timer := time.AfterFunc(time.Until(d.Until), func() { cancel(errBackOffEnded) })
		defer timer.Stop()
	}
	type end struct {
		c   Container
		err error
	}
	ends := make(chan end, len(d.Watch))
	watching := 0
	for i := range obs.Containers {
		c := obs.Containers[i]
		for _, id := range d.Watch {
			if c.ID == id {
				watching++
				go func() {
					now, err := watchExit(ctx, client, c)
					ends <- end{now, err}
				}()
			}
		}
	}
	var first error
	for i := range watching {
		e := <-ends
		if e.err == nil {
			obs.put(e.c)
		} else if i == 0 {
			first = e.err
		}
		cancel(errOtherEnded)
	}
	if watching == 0 {
		<-ctx.Done()
		first = context.Cause(ctx)
	}
	if first == errBackOffEnded || first == errOtherEnded {
		return nil
	}
	return first
}

var (
	errBackOffEnded = fmt.Errorf("the back-off has ended")
	errOtherEnded   = fmt.Errorf("another container has ended")
)
