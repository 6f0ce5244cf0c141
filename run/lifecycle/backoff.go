package lifecycle

import (
	"time"

	"github.com/podrun/podrun/identity"
)

// The kubelet's crash-loop back-off: none before the first restart, then 10 s
// doubling to 300 s; a run of 10 minutes starts it over
// (pkg/kubelet/kubelet.go, backOffPeriod and MaxContainerBackOff).
const (
	firstRestartDelay = 10 * time.Second
	maxRestartDelay   = 300 * time.Second
	restartDelayReset = 10 * time.Minute
)

// restartDelay is how long a container that exited waits to be started again.
// The container carries it: what the runtime keeps outlives any podrun process.
func restartDelay(c *Container) time.Duration {
	if c.ranLong() {
		return 0
	}
	return c.backOff()
}

// ranLong tells whether the container ran long enough to start the back-off
// over.
func (c *Container) ranLong() bool {
	return !c.StartedAt.IsZero() && c.FinishedAt.Sub(c.StartedAt) >= restartDelayReset
}

// backOff is the delay that the container was made with: the one before the
// next restart, if it ends soon. Without one, as in a pod of an older podrun,
// its restarts tell.
func (c *Container) backOff() time.Duration {
	if d, err := time.ParseDuration(c.Annotations[identity.AnnotationBackOff]); err == nil {
		return min(max(d, 0), maxRestartDelay)
	}
	if c.Restarts == 0 {
		return 0
	}
	delay := firstRestartDelay
	for n := uint32(1); n < c.Restarts && delay < maxRestartDelay; n++ {
		delay *= 2
	}
	return min(delay, maxRestartDelay)
}

// NextBackOff returns the restart delay of the container that replaces last; last
// is nil for the first container of a name. A container whose definition changed
// starts with no delay.
func NextBackOff(last *Container, hash string) time.Duration {
	switch {
	case last == nil || last.Hash != hash:
		return 0
	case last.ranLong():
		return firstRestartDelay
	}
	return min(max(last.backOff()*2, firstRestartDelay), maxRestartDelay)
}
