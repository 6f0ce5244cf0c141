package stop

import (
	"context"
	"fmt"
	"time"

	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/observe"
)

// stopRetryTimeout is how long a failed stop is retried; the kubelet retries forever. If a container's shim
// does not respond, containerd on a busy machine takes seconds to detect that the container has exited: more
// than 5 s in a virtual machine with a third of a CPU. The pauses between attempts double, because calls fail
// immediately while the runtime restarts.
const (
	stopRetryTimeout = 15 * time.Second
	firstStopPause   = 100 * time.Millisecond
	lastStopPause    = 2 * time.Second
)

// stopWithRetries stops a container within the rest of its grace period, which began at start, and retries a
// failed stop. When the context hurried ends, it kills the container.
func (s *Stopper) stopWithRetries(ctx, hurried context.Context, st stop, start time.Time) error {
	var late time.Time // stopRetryTimeout after the first failure
	for pause := firstStopPause; ; pause = min(2*pause, lastStopPause) {
		left, within := max(st.grace-time.Since(start), min(st.grace, minimumGrace)).Round(time.Second), hurried
		if hurried.Err() != nil {
			left, within = 0, ctx
		}
		err := s.pod.Node.Client.StopContainer(within, st.ID, left)
		if late.IsZero() {
			late = time.Now().Add(stopRetryTimeout)
		}
		switch {
		case err == nil || observe.Settled(ctx, s.pod.Node.Client, st.Container):
			return nil
		case ctx.Err() == nil && within == hurried && hurried.Err() != nil:
			continue // the next iteration kills the container
		case ctx.Err() != nil || time.Now().After(late):
			return fmt.Errorf("stop container %s (%s): %w", st.Name, observe.ShortID(st.ID), err)
		}
		_ = wait.Sleep(within, pause) // the loop checks both contexts
	}
}
