package lifecycle

import (
	"cmp"
	"time"

	"github.com/podrun/podrun/internal/identity"
)

// The kubelet's back-off of containers that crash: none before the first restart,
// then 10 s doubling to 300 s; a run of 10 minutes starts it over, whatever the
// longest delay (pkg/kubelet/kubelet.go, initialCrashLoopBackOff,
// MaxCrashLoopBackOff and HasExpiredFunc of crashLoopBackOff).
const (
	firstRestartDelay = 10 * time.Second
	maxRestartDelay   = 300 * time.Second
	restartDelayReset = 10 * time.Minute
)

// RestartBackOff are the delays before a container that has exited is started
// again: First before its second restart, doubled each time up to Longest. A zero is
// the kubelet's default; nodeconfig.Settings.CrashLoopBackOff returns a node's.
type RestartBackOff struct{ First, Longest time.Duration }

func (b RestartBackOff) withDefaults() RestartBackOff {
	b.Longest = cmp.Or(b.Longest, maxRestartDelay)
	b.First = min(cmp.Or(b.First, firstRestartDelay), b.Longest)
	return b
}

// RestartDelay is the delay, counted from its end, before an exited container is started
// again. It is stored on the container, because the runtime's data outlives podrun
// processes.
func RestartDelay(c *Container, limits RestartBackOff) time.Duration {
	if c.ranLong() {
		return 0
	}
	return c.backOff(limits.withDefaults())
}

// ranLong reports whether the container ran long enough to start the back-off
// over.
func (c *Container) ranLong() bool {
	return !c.StartedAt.IsZero() && c.FinishedAt.Sub(c.StartedAt) >= restartDelayReset
}

// backOff is the delay that the container was made with: the one before the
// next restart, if it ends soon. Without one, as in a pod of an older podrun,
// its restarts show.
func (c *Container) backOff(limits RestartBackOff) time.Duration {
	if d, err := time.ParseDuration(c.Annotations[identity.AnnotationBackOff]); err == nil {
		return min(max(d, 0), limits.Longest)
	}
	if c.Restarts == 0 {
		return 0
	}
	delay := limits.First
	for n := uint32(1); n < c.Restarts && delay < limits.Longest; n++ {
		delay *= 2
	}
	return min(delay, limits.Longest)
}

// NextBackOff returns the restart delay of the container that replaces last; last
// is nil for the first container of a name. A container whose definition changed
// starts with no delay: it has another key of the kubelet's back-off, which
// includes the container's hash.
func NextBackOff(last *Container, hash string, limits RestartBackOff) time.Duration {
	limits = limits.withDefaults()
	switch {
	case last == nil || last.Hash != hash:
		return 0
	case last.ranLong():
		return limits.First
	}
	return min(max(last.backOff(limits)*2, limits.First), limits.Longest)
}
