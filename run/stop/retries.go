package stop

import (
	"context"
	"fmt"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/observe"
)

// stopRetryTimeout is how long a failed call that stops or removes an object is retried; the kubelet retries
// forever. If a container's shim does not respond, containerd on a busy machine takes seconds to detect that
// the container has exited: more than 5 s in a virtual machine with a third of a CPU. The pauses between
// attempts double, because calls fail immediately while the runtime restarts.
const (
	stopRetryTimeout = 15 * time.Second
	firstStopPause   = 100 * time.Millisecond
	lastStopPause    = 2 * time.Second
)

// retries paces the attempts of one call. The zero value is ready for use.
type retries struct {
	end   time.Time // stopRetryTimeout after the first failure
	pause time.Duration
}

// failed is called after each failed attempt. It waits until the next attempt, or until ctx ends, and returns
// true; it returns false if no time for attempts is left.
func (r *retries) failed(ctx context.Context) bool {
	if r.end.IsZero() {
		r.end, r.pause = time.Now().Add(stopRetryTimeout), firstStopPause
	}
	if time.Now().After(r.end) {
		return false
	}
	_ = wait.Sleep(ctx, r.pause) // the caller checks ctx
	r.pause = min(2*r.pause, lastStopPause)
	return true
}

// duringOutage makes a call, and retries it while the runtime is unavailable. It does not retry other errors:
// the client has repeated calls that a busy runtime refused (cri.Busy), and the pod's lock is held.
func duringOutage(ctx context.Context, call func() error) error {
	var r retries
	for {
		err := call()
		if !observe.IsUnavailable(err) || ctx.Err() != nil || !r.failed(ctx) || ctx.Err() != nil {
			return err
		}
	}
}

// stopWithRetries stops a container within the rest of its grace period, which began at start, and retries a
// failed stop. When the context hurried ends, it kills the container.
func (s *Stopper) stopWithRetries(ctx, hurried context.Context, st stop, start time.Time) error {
	var r retries
	for {
		left, within := max(st.grace-time.Since(start), min(st.grace, minimumGrace)).Round(time.Second), hurried
		if hurried.Err() != nil {
			left, within = 0, ctx
		}
		err := s.pod.Node.Client.StopContainer(within, st.ID, left)
		switch {
		case err == nil || observe.Settled(ctx, s.pod.Node.Client, st.Container):
			return nil
		case ctx.Err() == nil && within == hurried && hurried.Err() != nil:
			continue // the next iteration kills the container
		case ctx.Err() != nil && cri.Interrupted(err):
			return fmt.Errorf("container %s (%s) has not exited yet", st.Name, observe.ShortID(st.ID))
		case ctx.Err() != nil || !r.failed(within):
			return fmt.Errorf("stop container %s (%s): %w", st.Name, observe.ShortID(st.ID), err)
		}
	}
}
