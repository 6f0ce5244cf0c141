package lifecycle

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// Verb is the kind of an Action.
type Verb string

// The verbs of actions.
const (
	// KillPod stops every container of the pod, then its sandboxes.
	KillPod Verb = "KillPod"
	// CreateSandbox creates a sandbox; Attempt is its attempt.
	CreateSandbox Verb = "CreateSandbox"
	// KillContainer stops one container.
	KillContainer Verb = "KillContainer"
	// StartContainer creates and starts a container and runs its postStart
	// hook; Attempt is its restart count.
	StartContainer Verb = "StartContainer"
	// RestartAll stops every container and starts the pod over in its sandbox,
	// init containers included.
	RestartAll Verb = "RestartAll"
	// RunPostStart runs a hook that an earlier podrun did not see finish.
	RunPostStart Verb = "RunPostStart"
	// ResizePod sets the resources of the pod's cgroup and its running containers to
	// those of the spec (KEP-1287).
	ResizePod Verb = "ResizePod"
)

// Action is one step on a pod. Actions are executed in order.
type Action struct {
	Verb      Verb   `json:"verb"`
	Container string `json:"container,omitempty"`   // name in the pod's spec
	ID        string `json:"containerID,omitempty"` // for KillContainer, RunPostStart
	Attempt   uint32 `json:"attempt"`
	Why       string `json:"why,omitempty"`
	// Message is that of the Killing event, for KillContainer.
	Message string `json:"message,omitempty"`
	// Restart is why the killed containers are started again, for KillContainer and KillPod;
	// empty if they are not, or if their exit codes decide. It is recorded before the kill.
	Restart RestartCause `json:"restart,omitempty"`
	// Grace is the seconds that a container is given to end, where they are not
	// the pod's own: a probe's terminationGracePeriodSeconds.
	Grace *int64 `json:"grace,omitempty"`
}

// Decision is what to do about a pod now. With no actions, there is nothing to do
// until a container in Watch exits or Until has passed.
type Decision struct {
	Actions []Action
	Watch   []string  // IDs of running containers whose end changes things
	Until   time.Time // end of the shortest back-off; zero for none
	BackOff []string  // names of the containers that are held back
	// Ended is true if no container of the pod runs or will run again.
	Ended bool
	// Overdue is true if the pod has run longer than activeDeadlineSeconds.
	Overdue bool
}

// World is the input of Next in addition to the pod: the observed state, the desired
// containers, and the time.
type World struct {
	Observed *Observed
	Hashes   map[string]string // container name → hash of its spec
	Now      time.Time
	// Started are the containers whose startup probe has succeeded, by ID.
	Started map[string]bool
	// Unhealthy are the containers whose startup or liveness probe has failed
	// for good, by ID.
	Unhealthy map[string]Unhealthy
	// Since is when the pod was first taken on, from which
	// activeDeadlineSeconds counts; zero if it was not yet.
	Since time.Time
	// GroupLost is true if the pod's cgroup existed and no longer does. The kubelet kills such a
	// pod and starts it again (syncPod in pkg/kubelet).
	GroupLost bool
	// Ephemeral are the names of the ephemeral containers that are started if they
	// never were.
	Ephemeral []string
	// DebugOnly is true if only ephemeral containers are handled.
	DebugOnly bool
	// BackOff are the node's delays before a container that has exited is started
	// again; the zero value is the kubelet's defaults.
	BackOff RestartBackOff
}

// changed reports whether a container was made from another definition than the pod
// has now.
func (w World) changed(c *Container) bool {
	want := w.Hashes[c.Name]
	return want != "" && c.Hash != "" && want != c.Hash
}

// Unhealthy is a probe of a container that has reached its failure threshold.
type Unhealthy struct {
	Message string // "Container app failed liveness probe"
	Grace   *int64 // the probe's own terminationGracePeriodSeconds
}

// Next decides what to do about a pod. It is pure and has all of the lifecycle's
// logic; the caller executes the actions, observes the pod and calls it again.
//
// The order is the kubelet's: a sandbox first; init containers one after the
// other, each to success; sidecars (KEP-753) started in their turn and kept
// running; then the app containers in list order.
func Next(pod *corev1.Pod, w World) Decision {
	if w.Observed.Kept.Terminal() {
		return end(w.Observed) // whatever the runtime has forgotten since
	}
	due := deadline(pod, w.Since)
	if !due.IsZero() && !w.Now.Before(due) && !allEndedBefore(pod, w.Observed, due) {
		d := end(w.Observed)
		d.Overdue = true
		return d
	}
	d := nextStep(pod, w)
	if !due.IsZero() && !d.Ended {
		d.until(due)
	}
	return d
}

// nextStep is Next without the pod's deadline.
func nextStep(pod *corev1.Pod, w World) Decision {
	create, attempt, why := needSandbox(pod, w.Observed)
	if !create && w.GroupLost {
		create, attempt, why = true, attempt+1, "its control group was removed"
	}
	if create && w.DebugOnly {
		return Decision{Ended: true} // an ephemeral container starts no pod
	}
	if create {
		return startOver(pod, w, attempt, why)
	}
	var d Decision
	if d.ephemeral(w); w.DebugOnly {
		return d
	}
	if c := requestsRestartAll(pod, w.Observed); c != nil {
		d.restartAll(c, w)
		return d
	}
	if !nextInit(pod, w, &d) {
		if !d.Ended {
			d.resize(pod, w.Observed, len(d.Actions))
		}
		return d
	}
	running, apps := 0, len(d.Actions)
	for i := range pod.Spec.Containers {
		running += nextApp(pod, &pod.Spec.Containers[i], w, &d)
	}
	if running == 0 {
		return end(w.Observed) // whatever the sidecars would need: they keep no pod alive
	}
	d.resize(pod, w.Observed, apps)
	return d
}

// ephemeral starts ephemeral containers (KEP-277): before the pod is initialized, too,
// and never a second time, not in a later sandbox either (computePodActions in
// pkg/kubelet/kuberuntime).
func (d *Decision) ephemeral(w World) {
	for _, name := range w.Ephemeral {
		if w.Observed.Newest(name) == nil {
			d.start(name, w.Observed, "not created yet")
		}
	}
}

// deadline is when the pod's activeDeadlineSeconds end; zero for never.
func deadline(pod *corev1.Pod, since time.Time) time.Time {
	if pod.Spec.ActiveDeadlineSeconds == nil || since.IsZero() {
		return time.Time{}
	}
	return since.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// allEndedBefore reports whether the app containers had all ended for good before
// the deadline: then it came too late to matter.
func allEndedBefore(pod *corev1.Pod, obs *Observed, due time.Time) bool {
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		last := obs.Latest(c.Name)
		if !obs.hasEnded(pod, c, last) || !last.FinishedAt.Before(due) {
			return false
		}
	}
	return true
}

// until takes a time in at which there will be something to do.
func (d *Decision) until(t time.Time) {
	if d.Until.IsZero() || t.Before(d.Until) {
		d.Until = t
	}
}

// nextApp plans one app container; it returns 1 if the container runs or will.
func nextApp(pod *corev1.Pod, c *corev1.Container, w World, d *Decision) int {
	have := w.Observed.Container(c.Name)
	switch {
	case have == nil && w.Observed.hasEnded(pod, c, w.Observed.Latest(c.Name)):
		return 0 // it ended in an earlier sandbox, and for good
	case have == nil:
		d.start(c.Name, w.Observed, "not created yet")
	case have.State == Running:
		if nextRunning(pod, c, have, w, d) {
			d.Watch = append(d.Watch, have.ID)
		}
	case w.Observed.hasEnded(pod, c, have):
		return 0
	case have.State == Exited:
		d.restart(pod, c, have, w)
	default:
		d.start(c.Name, w.Observed, "was "+string(have.State))
	}
	return 1
}

// nextRunning plans a running container and reports whether it is as it should
// be. A changed spec (name or image: all that the API lets change) replaces it.
func nextRunning(pod *corev1.Pod, c *corev1.Container, have *Container, w World, d *Decision) bool {
	if w.changed(have) {
		d.replace(c.Name, have.ID, w.Observed, Action{Why: "its definition changed",
			Message: fmt.Sprintf("Container %s definition changed, will be restarted", c.Name)})
		return false
	}
	if bad, ok := w.Unhealthy[have.ID]; ok {
		kill := Action{Verb: KillContainer, Container: c.Name, ID: have.ID, Grace: bad.Grace, Why: bad.Message, Message: bad.Message}
		if restartsWhenKilled(pod, c) {
			kill.Restart = RestartUnhealthy
		}
		if kill.Restart != "" && !podutil.IsRestartableInitContainer(c) {
			kill.Message += ", will be restarted"
		}
		d.Actions = append(d.Actions, kill)
		return false
	}
	if w.Observed.resizeRestarts(pod, c, have) {
		why := fmt.Sprintf("Container %s resize requires restart", c.Name)
		d.replace(c.Name, have.ID, w.Observed, Action{Why: why, Message: why})
		return false
	}
	if HasPostStart(c) && w.Observed.Hooks[have.ID] != HookDone {
		d.Actions = append(d.Actions, Action{Verb: RunPostStart, Container: c.Name, ID: have.ID, Attempt: have.Restarts, Why: "its postStart hook may not have finished"})
		return false
	}
	return true
}

// replace kills a container and starts it again, whatever its restart policy. Kill has the
// reason and the message.
func (d *Decision) replace(name, id string, obs *Observed, kill Action) {
	kill.Verb, kill.Container, kill.ID, kill.Restart = KillContainer, name, id, RestartChanged
	d.Actions = append(d.Actions, kill)
	d.start(name, obs, kill.Why)
}

func (d *Decision) start(name string, obs *Observed, why string) {
	var attempt uint32
	if last := obs.Newest(name); last != nil {
		attempt = last.Restarts + 1
	}
	d.Actions = append(d.Actions, Action{Verb: StartContainer, Container: name, Attempt: attempt, Why: why})
}

// restartAll restarts all containers of the pod, after the back-off of the container
// whose rule requires it.
func (d *Decision) restartAll(c *Container, w World) {
	if d.holdBack(c, w) {
		return
	}
	d.Actions = append(d.Actions, Action{Verb: RestartAll, Container: c.Name, ID: c.ID,
		Why: fmt.Sprintf("container %s exited with %d, for which all are restarted", c.Name, c.ExitCode)})
}

// restart starts an exited container again, unless its back-off has not ended. One
// that was killed to be resized has none.
func (d *Decision) restart(pod *corev1.Pod, c *corev1.Container, last *Container, w World) {
	if w.Observed.resizeRestarts(pod, c, last) || !d.holdBack(last, w) {
		d.start(last.Name, w.Observed, fmt.Sprintf("exited with %d", last.ExitCode))
	}
}

// holdBack reports whether the back-off of an exited container has not ended, and
// takes its end in. The back-off of another definition does not count.
func (d *Decision) holdBack(c *Container, w World) bool {
	if w.changed(c) {
		return false
	}
	delay := RestartDelay(c, w.BackOff)
	at := c.FinishedAt.Add(delay)
	// If the clock was set back, the delay must not become longer.
	if left := at.Sub(w.Now); left <= 0 || left >= 2*delay {
		return false
	}
	d.until(at)
	d.BackOff = append(d.BackOff, c.Name)
	return true
}

// HasPostStart reports whether a container has a postStart hook.
func HasPostStart(c *corev1.Container) bool {
	return c.Lifecycle != nil && c.Lifecycle.PostStart != nil
}
