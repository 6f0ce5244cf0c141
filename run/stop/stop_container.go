package stop

import (
	"context"
	"fmt"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/run/observe"
)

// minimumGrace is the minimum time that a container gets to stop when its preStop hook, or the
// containers before it, have used up the pod's grace period (kubelet, minimumGracePeriodInSeconds).
const minimumGrace = 2 * time.Second

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
