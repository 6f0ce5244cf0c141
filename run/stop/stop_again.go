package stop

import (
	"context"
	"fmt"
	"time"

	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/observe"
)

// stopAgainFor is how long a stop is retried after its first failure; the kubelet retries
// without limit. On a busy machine, containerd takes seconds to notice that a container has
// ended if only its shim does not respond; more than 5 in a guest with a third of a
// processor. The pauses between the tries double, because calls fail at once while the
// runtime restarts.
const (
	stopAgainFor   = 15 * time.Second
	firstStopPause = 100 * time.Millisecond
	lastStopPause  = 2 * time.Second
)

// stopAgain stops a container within the rest of its grace period, which began at start,
// and retries a stop that fails. When hurried ends, it kills the container.
func (s *Stopper) stopAgain(ctx, hurried context.Context, st stop, start time.Time) error {
	var late time.Time // stopAgainFor after the first failure
	for pause := firstStopPause; ; pause = min(2*pause, lastStopPause) {
		left, within := max(st.grace-time.Since(start), min(st.grace, minimumGrace)).Round(time.Second), hurried
		if hurried.Err() != nil {
			left, within = 0, ctx
		}
		err := s.pod.Node.Client.StopContainer(within, st.ID, left)
		if late.IsZero() {
			late = time.Now().Add(stopAgainFor)
		}
		switch {
		case err == nil || observe.Settled(ctx, s.pod.Node.Client, st.Container):
			return nil
		case ctx.Err() == nil && within == hurried && hurried.Err() != nil:
			continue // it is killed next
		case ctx.Err() != nil || time.Now().After(late):
			return fmt.Errorf("stop container %s (%s): %w", st.Name, observe.ShortID(st.ID), err)
		}
		_ = wait.Sleep(within, pause) // the loop looks at both contexts
	}
}
