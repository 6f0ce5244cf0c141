package observe

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
)

// podrun detects a container's exit as follows. A pidfd wakes podrun immediately. podrun then polls the
// runtime every settlePoll until the runtime reports the exit, about 25 ms later. If no pid is known,
// podrun polls the runtime at increasing intervals. If a pid is known, podrun also polls the runtime
// every safeguardPoll, in case the pidfd does not work.
const (
	settlePoll    = 2 * time.Millisecond
	settleTime    = 500 * time.Millisecond
	firstPoll     = 5 * time.Millisecond
	slowestPoll   = 15 * time.Millisecond
	safeguardPoll = time.Second
	// RelistAfter is the interval at which podrun observes a pod even if nothing has happened.
	RelistAfter = 10 * time.Second
	// OutagePoll is the interval at which podrun polls an unavailable runtime.
	OutagePoll = 100 * time.Millisecond
)

// watchExit waits until the container is no longer running, and returns its new state. If ctx ends
// first, the error is its cause.
func watchExit(ctx context.Context, client *cri.Client, c lifecycle.Container) (lifecycle.Container, error) {
	watch := watchPID(c.PID, c.ID, nil)
	defer func() { watch.stop() }()
	poll := firstPoll
	var settle, verboseAt time.Time
	for {
		// The verbose response is much more expensive than the plain one, both for the runtime and for
		// podrun. So watchExit requests it only if the pid is unknown, and not at each poll if the
		// runtime reports no pid.
		verbose := c.PID == 0 && time.Since(verboseAt) >= safeguardPoll
		if verbose {
			verboseAt = time.Now()
		}
		now, err := ReadContainer(ctx, client, c.ID, c.SandboxID, verbose)
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		if IsUnavailable(err) {
			// Containers keep running during a restart of the runtime, so the watch continues. The
			// worker decides how long an outage may last (run/lease, longestOutage).
			if err := wait.Sleep(ctx, OutagePoll); err != nil {
				return c, err
			}
			continue
		}
		if err != nil {
			return c, err
		}
		if now.State != lifecycle.Running {
			return now, nil
		}
		if c.PID == 0 && now.PID != 0 {
			watch = watchPID(now.PID, c.ID, nil)
			c.PID = now.PID
		}
		if watch.gone {
			watch.gone, settle = false, time.Now().Add(settleTime)
		}
		wait := poll
		switch {
		case time.Now().Before(settle):
			wait = settlePoll
		case watch.exited != nil:
			wait = safeguardPoll
		default:
			poll = min(poll*5/4, slowestPoll)
		}
		select {
		case <-ctx.Done():
			return now, context.Cause(ctx)
		case <-time.After(wait):
		case <-watch.exited:
			watch.exited, settle = nil, time.Now().Add(settleTime)
		}
	}
}

// IsUnavailable reports whether an error means that the runtime is unavailable.
func IsUnavailable(err error) bool { return status.Code(err) == codes.Unavailable }

// AwaitChange waits until a container in d.Watch exits, d.Until has passed, or a value arrives on wake. It
// updates obs with the new states of containers. After the duration relist, it returns ErrRelist: the
// caller must observe the pod again, because the runtime does not announce every change. Any other error
// is the runtime's, or the cause that ended ctx.
func AwaitChange(ctx context.Context, client *cri.Client, obs *lifecycle.Observed, d lifecycle.Decision, wake <-chan struct{}, relist time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	woken := make(chan struct{})
	go func() {
		defer close(woken)
		select {
		case <-wake:
			cancel(errWoken)
		case <-time.After(relist):
			cancel(ErrRelist)
		case <-ctx.Done():
		}
	}()
	defer func() { cancel(nil); <-woken }()
	if !d.Until.IsZero() {
		timer := time.AfterFunc(time.Until(d.Until), func() { cancel(errBackOffEnded) })
		defer timer.Stop()
	}
	type end struct {
		c   lifecycle.Container
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
			obs.Put(e.c)
		} else if i == 0 {
			first = e.err
		}
		cancel(errOtherEnded)
	}
	if watching == 0 {
		<-ctx.Done()
		first = context.Cause(ctx)
	}
	if first == errBackOffEnded || first == errOtherEnded || first == errWoken {
		return nil
	}
	return first
}

var (
	errBackOffEnded = fmt.Errorf("the back-off has expired")
	errOtherEnded   = fmt.Errorf("another container has exited")
	errWoken        = fmt.Errorf("an asynchronous result arrived")
	// ErrRelist means that the pod must be observed again.
	ErrRelist = fmt.Errorf("the pod must be observed again")
)

// Settled reports whether a container has exited although podrun's call to stop it failed. containerd's
// StopContainer fails if the container exits by itself at the same moment ("ttrpc: closed"). containerd
// then records the exit up to half a second later.
func Settled(ctx context.Context, client *cri.Client, c lifecycle.Container) bool {
	for late := time.Now().Add(settleTime); ; {
		now, err := ReadContainer(ctx, client, c.ID, c.SandboxID, false)
		switch {
		case err == nil && now.State != lifecycle.Running:
			return true
		case err != nil || time.Now().After(late):
			return false
		}
		if wait.Sleep(ctx, firstPoll) != nil {
			return false
		}
	}
}
