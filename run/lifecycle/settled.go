package lifecycle

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// A command that waits until a pod is ready must not succeed because podrun observed a crashing
// container between its start and its exit. The kubelet, too, reports such a container as ready if it
// has no probe. But the kubelet observes containers only once a second (the relist period of PLEG in
// pkg/kubelet), so a container that exits at once usually never becomes ready.
const (
	// firstSettle is how long a container without a readiness or startup probe must run before it
	// counts as ready.
	firstSettle = time.Second
	// longestSettle limits how long a restarted container must run before it counts as ready. A longer time is not
	// necessary, because the restart delay after a longer run separates the earlier failure from the command's
	// result.
	longestSettle = 10 * time.Second
)

// Unsettled is a running container that may be crash looping.
type Unsettled struct {
	Until time.Time // the time from which it counts as ready
	Why   string
}

// FindUnsettled returns the container for which a command must wait longest before it may report the
// pod as ready, or nil if the command need not wait. A container that was restarted after an exit must
// run longer than it did before that exit, up to longestSettle. If the process of a container has
// exited, but the runtime still reports the container as running, the command waits for the runtime
// until longestSettle has passed since begun, the time at which the command began. Until may be in the
// past: then the container has run long enough, but the observation is older than Until, and the
// container may have exited since.
func FindUnsettled(pod *corev1.Pod, obs *Observed, begun, now time.Time) *Unsettled {
	var out *Unsettled
	for _, c := range SpecContainers(pod) {
		if c.Ephemeral || c.Init && !podutil.IsRestartableInitContainer(c.Container) {
			continue
		}
		have := obs.Container(c.Container.Name)
		if have == nil || have.State != Running {
			continue
		}
		since := have.StartedAt
		settle, why := settleTime(c.Container, have, obs.Previous(have))
		if have.ProcessExited {
			// The limit does not depend on the start of the container, because a container may exit at
			// any time. It is not infinite, because the process ID that the runtime reports may be
			// wrong.
			if begun.After(since) {
				since = begun
			}
			settle, why = longestSettle, fmt.Sprintf("the process of container %s has exited, and the runtime has not reported it yet", have.Name)
		}
		until := since.Add(settle)
		// If the clock was set back, the wait must not become longer.
		if settle == 0 || until.Sub(now) > settle || !obs.ReadAt.Before(until) {
			continue
		}
		if out == nil || out.Until.Before(until) {
			out = &Unsettled{Until: until, Why: why}
		}
	}
	return out
}

// settleTime returns how long a running container must run before it counts as ready, and why. The
// argument previous is the container's previous run, or nil if there was none. The previous run is not
// part of a crash loop if it was in an earlier sandbox, had another definition, or was long enough to
// reset the back-off.
func settleTime(spec *corev1.Container, have, previous *Container) (time.Duration, string) {
	if previous != nil && previous.SandboxID == have.SandboxID && previous.Hash == have.Hash && !previous.ranLong() {
		ran := max(previous.FinishedAt.Sub(previous.StartedAt), 0)
		return min(ran+firstSettle, longestSettle), fmt.Sprintf("container %s was restarted and may exit again", have.Name)
	}
	if spec.ReadinessProbe != nil || spec.StartupProbe != nil {
		return 0, ""
	}
	return firstSettle, fmt.Sprintf("container %s has just started", have.Name)
}
