package lifecycle

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// ProgressLimits are the limits of an update. The zero value means that podrun does not watch updates.
type ProgressLimits struct {
	// Deadline is how long the pod may be unready before its definition is bad.
	Deadline time.Duration `json:"deadline"`
	// MinReady is how long the pod must be ready before its definition is good.
	MinReady time.Duration `json:"minReady"`
}

const (
	// leastReady is the least MinReady: a container without probes is ready as soon as it runs, and one that crashes
	// may run for some seconds.
	leastReady = longestSettle
	// badRestarts is the number of restarts of one container that make a definition bad.
	badRestarts = 3
	// badStarts is the number of times that the pod is started again during an update, for example at a boot of the host,
	// that make its definition bad.
	badStarts = 3
)

// NewProgressLimits returns the limits for a deadline and minReadySeconds.
func NewProgressLimits(deadline, minReady time.Duration) ProgressLimits {
	if deadline <= 0 {
		return ProgressLimits{}
	}
	return ProgressLimits{Deadline: deadline, MinReady: max(minReady, leastReady)}
}

// Progress is how far an update is. podrun stores it, so that the next process continues.
type Progress struct {
	// Spent is how long the pod has been unready so far. It does not include startup probes.
	Spent time.Duration `json:"spent,omitempty"`
	// Sandbox is the ID of the sandbox in which Spent was measured, and Starts is the number of later sandboxes. The time
	// begins again with each sandbox, because all containers start again.
	Sandbox string `json:"sandbox,omitempty"`
	Starts  int    `json:"starts,omitempty"`
	// Restarts are the restart counts of the containers when they were first observed.
	Restarts map[string]uint32 `json:"restarts,omitempty"`

	// These are valid in one process only. last is the time of the last call of Judge, and counts is true if the time
	// since then counts. ready is the time since which the pod has been ready; zero if it is not ready.
	last, ready time.Time
	counts      bool
}

// Resume returns the progress for a new process.
func (p Progress) Resume() Progress {
	p.last = time.Time{}
	return p.Pause()
}

// Verdict is the result of Progress.Judge.
type Verdict struct {
	Good bool
	// Reason is why the definition is bad, in one word; "" if it is not.
	Reason, Message string
	Until           time.Time // the time of the next decision; zero if nothing is due
}

// Bad reports whether the definition is bad.
func (v Verdict) Bad() bool { return v.Reason != "" }

// The reasons of bad definitions, in addition to those of Waiting.
const (
	ProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	crashLoopBackOff         = "CrashLoopBackOff"
	failedPod                = "PodFailed"
	startedAgain             = "StartedAgain"
)

// Judge decides whether the definition of a pod is good. The argument changed reports whether a container was created from
// another definition, and ready whether the pod is ready according to current probe results. It is pure, and returns the new
// progress. If the host's clock is changed, nothing follows, because both times of a duration are of this process.
func (p Progress) Judge(pod *corev1.Pod, w World, status corev1.PodStatus, ready bool, limits ProgressLimits) (Progress, Verdict) {
	p = p.advance(w.Now).inSandbox(w.Observed.Sandbox())
	if k := w.Observed.Kept; k.Evicted != nil || !k.ShutDown.IsZero() {
		return p.Pause(), Verdict{} // this does not depend on the definition
	}
	if v := p.failure(pod, w, status); v.Bad() {
		return p, v
	}
	if status.Phase == corev1.PodSucceeded {
		return p, Verdict{Good: true}
	}
	if ready {
		if p.counts = false; p.ready.IsZero() {
			p.ready = w.Now
		}
		if w.Now.Sub(p.ready) >= limits.MinReady {
			return p, Verdict{Good: true}
		}
		return p, Verdict{Until: p.ready.Add(limits.MinReady)}
	}
	p.ready, p.counts = time.Time{}, !startupProbeRuns(pod, w)
	if left := limits.Deadline - p.Spent; left > 0 {
		v := Verdict{}
		if p.counts {
			v.Until = w.Now.Add(left)
		}
		return p, v
	}
	return p, Verdict{Reason: ProgressDeadlineExceeded, Message: fmt.Sprintf("the pod was not ready within %s%s", limits.Deadline, unreadyCause(status))}
}

// advance adds the time since the last call, if it counts.
func (p Progress) advance(now time.Time) Progress {
	if p.counts && !p.last.IsZero() {
		p.Spent += max(now.Sub(p.last), 0)
	}
	p.last = now
	return p
}

// inSandbox returns the progress in the pod's current sandbox; nil if it has none.
func (p Progress) inSandbox(now *Sandbox) Progress {
	if now == nil || now.ID == p.Sandbox {
		return p
	}
	if p.Sandbox != "" {
		p.Spent = 0
		p.Restarts = nil
		p.ready = time.Time{}
		p.Starts++
	}
	p.Sandbox = now.ID
	return p
}

// Pause returns the progress at the beginning of a period that does not count.
func (p Progress) Pause() Progress {
	p.ready, p.counts = time.Time{}, false
	return p
}

// failure returns why a definition is bad at once; the zero Verdict if it is not. It also records the restart counts.
func (p *Progress) failure(pod *corev1.Pod, w World, status corev1.PodStatus) Verdict {
	failures := w.Observed.CurrentStartFailures()
	restarts := maps.Clone(p.Restarts)
	if restarts == nil {
		restarts = map[string]uint32{}
	}
	p.Restarts = restarts
	for _, s := range SpecContainers(pod) {
		name, c := s.Container.Name, w.Observed.Newest(s.Container.Name)
		if s.Ephemeral {
			continue
		}
		if f, has := failures[name]; has && failsAtOnce(f) {
			return Verdict{Reason: f.Reason, Message: fmt.Sprintf("container %s: %s", name, f.Message)}
		}
		if c == nil || w.changed(c) {
			continue
		}
		if c.State == Exited && (c.CreateFailed || c.Reason == reasonStartError) {
			return Verdict{Reason: RunContainerError, Message: fmt.Sprintf("container %s: %s", name, c.Message)}
		}
		if first, seen := restarts[name]; !seen || c.Restarts < first {
			restarts[name] = c.Restarts
		}
		if n := c.Restarts - restarts[name]; n >= badRestarts {
			return Verdict{Reason: crashLoopBackOff, Message: fmt.Sprintf("container %s has restarted %d times%s", name, n, lastExit(w.Observed.Previous(c)))}
		}
	}
	switch {
	case status.Phase == corev1.PodFailed:
		return Verdict{Reason: failedPod, Message: "the pod has failed" + because(status.Reason, status.Message)}
	case p.Starts >= badStarts:
		return Verdict{
			Reason:  startedAgain,
			Message: fmt.Sprintf("the pod was started again %d times before it was ready, for example at boots of the host", p.Starts),
		}
	}
	return Verdict{}
}

// failsAtOnce reports whether a start failure makes a definition bad. An image that cannot be pulled does not: podrun
// replaces a pod only when the new images are present, so that the image was removed since.
func failsAtOnce(f StartFailure) bool {
	switch f.Reason {
	case PostStartHookError, CreateContainerConfigError, RunContainerError, CreateContainerError:
		return !f.Transient
	}
	return false
}

// startupProbeRuns reports whether a running container has a startup probe that has not succeeded.
func startupProbeRuns(pod *corev1.Pod, w World) bool {
	for _, s := range SpecContainers(pod) {
		c := w.Observed.Container(s.Container.Name)
		app := !s.Init || podutil.IsRestartableInitContainer(s.Container)
		if app && s.Container.StartupProbe != nil && c != nil && c.State == Running && !w.Started[c.ID] {
			return true
		}
	}
	return false
}

// lastExit describes the exit of a container.
func lastExit(c *Container) string {
	if c == nil || c.State != Exited {
		return ""
	}
	text := fmt.Sprintf("; it exited with %d", c.ExitCode)
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	return text
}

// unreadyCause names the first container that is not ready.
func unreadyCause(status corev1.PodStatus) string {
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, c := range list {
			switch wait := c.State.Waiting; {
			case c.Ready || c.State.Terminated != nil && c.State.Terminated.ExitCode == 0:
			case wait != nil:
				return fmt.Sprintf(": container %s is waiting%s", c.Name, because(wait.Reason, wait.Message))
			default:
				return fmt.Sprintf(": container %s is not ready", c.Name)
			}
		}
	}
	return ""
}

// because returns a reason and a message in parentheses; "" if both are empty.
func because(reason, message string) string {
	switch {
	case reason == "" && message == "":
		return ""
	case message == "":
		return " (" + reason + ")"
	case reason == "":
		return " (" + message + ")"
	}
	return " (" + reason + ": " + message + ")"
}
