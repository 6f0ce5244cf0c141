package lifecycle

import (
	"cmp"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/wait"
)

// The kubelet's back-off for crashing containers: no delay before the first restart, then 10 s,
// doubling up to 300 s. Once a container has run for 10 minutes, podrun resets the delay, even if
// the configured longest delay is longer or shorter than that (pkg/kubelet/kubelet.go,
// initialCrashLoopBackOff, MaxCrashLoopBackOff and HasExpiredFunc of crashLoopBackOff).
const (
	firstRestartDelay = 10 * time.Second
	maxRestartDelay   = 300 * time.Second
	restartDelayReset = 10 * time.Minute
)

// RestartBackOff configures the delays before podrun starts an exited container again. First is the
// delay before the second restart; each later delay is twice the previous one, up to Longest. Zero
// means the kubelet's default. nodeconfig.Settings.CrashLoopBackOff returns a node's values.
type RestartBackOff struct{ First, Longest time.Duration }

func (b RestartBackOff) withDefaults() RestartBackOff {
	b.Longest = cmp.Or(b.Longest, maxRestartDelay)
	b.First = min(cmp.Or(b.First, firstRestartDelay), b.Longest)
	return b
}

// RestartDelay returns the delay between the exit of a container and its restart. podrun stores the
// delay with the container in the runtime, because the runtime's data outlives podrun processes.
func RestartDelay(c *Container, limits RestartBackOff) time.Duration {
	if c.ranLong() {
		return 0
	}
	return c.backOff(limits.withDefaults())
}

// ranLong reports whether the container ran long enough to reset the back-off.
func (c *Container) ranLong() bool {
	return !c.StartedAt.IsZero() && c.FinishedAt.Sub(c.StartedAt) >= restartDelayReset
}

// backOff returns the delay before the next restart, which was stored when the container was created.
// If an older version of podrun created the container and did not store the delay, backOff computes
// it from the restart count.
func (c *Container) backOff(limits RestartBackOff) time.Duration {
	if d, err := time.ParseDuration(c.Annotations[identity.AnnotationBackOff]); err == nil {
		return min(max(d, 0), limits.Longest)
	}
	return wait.Nth(int(c.Restarts), limits.First, limits.Longest)
}

// NextBackOff returns the restart delay to store on the container that replaces last. For the first
// container with a name, last is nil. A container whose definition changed starts without a delay,
// because the kubelet's back-off key includes the container's hash.
func NextBackOff(last *Container, hash string, limits RestartBackOff) time.Duration {
	limits = limits.withDefaults()
	switch {
	case last == nil || last.Hash != hash:
		return 0
	case last.ranLong():
		return limits.First
	}
	return wait.Next(last.backOff(limits), limits.First, limits.Longest)
}
