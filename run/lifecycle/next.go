package lifecycle

import (
	"fmt"
	"slices"
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
	// CreateSandbox creates a sandbox; Attempt is the sandbox's attempt number.
	CreateSandbox Verb = "CreateSandbox"
	// KillContainer stops one container.
	KillContainer Verb = "KillContainer"
	// CreateContainer creates an init container while the previous one runs. StartContainer then starts
	// it.
	CreateContainer Verb = "CreateContainer"
	// RemoveContainer removes an init container that was created but not started.
	RemoveContainer Verb = "RemoveContainer"
	// StartContainer creates and starts a container and runs its postStart hook; Attempt is its restart
	// count.
	StartContainer Verb = "StartContainer"
	// RestartAll stops every container and restarts all containers, including the init containers, in the
	// same sandbox.
	RestartAll Verb = "RestartAll"
	// RunPostStart runs a postStart hook again, if an earlier podrun process may not have finished it.
	RunPostStart Verb = "RunPostStart"
	// ResizePod applies the spec's resources to the pod's cgroup and its running containers (KEP-1287).
	ResizePod Verb = "ResizePod"
)

// Action is one step. Actions are executed in order.
type Action struct {
	Verb      Verb   `json:"verb"`
	Container string `json:"container,omitempty"`   // name in the pod's spec
	ID        string `json:"containerID,omitempty"` // for KillContainer, RemoveContainer, RunPostStart
	Attempt   uint32 `json:"attempt"`
	Why       string `json:"why,omitempty"`
	// Message is the message of the Killing event, for KillContainer.
	Message string `json:"message,omitempty"`
	// Restart is, for KillContainer and KillPod, the reason why podrun restarts the killed
	// containers. It is empty if podrun does not restart them, or if that depends on their exit
	// codes. podrun records the reason before the kill.
	Restart RestartCause `json:"restart,omitempty"`
	// Grace is the grace period of the container in seconds, if it differs from the pod's: a probe's
	// terminationGracePeriodSeconds.
	Grace *int64 `json:"grace,omitempty"`
}

// Decision contains the actions that a pod requires now. If there are none, the next decision is
// due when a container in Watch exits or at Until.
type Decision struct {
	Actions []Action
	Watch   []string  // IDs of running containers whose exit requires a new decision
	Until   time.Time // end of the shortest back-off; zero if no container is in back-off
	BackOff []string  // names of the containers in back-off
	// Ended is true if no container of the pod runs or will run again.
	Ended bool
	// Overdue is true if the pod has run longer than activeDeadlineSeconds.
	Overdue bool
}

// World is the input of Next apart from the pod: the observed state, the desired containers, and
// the time.
type World struct {
	Observed *Observed
	Hashes   map[string]string // container name → hash of its spec
	Now      time.Time
	// Started are the IDs of containers whose startup probe has succeeded.
	Started map[string]bool
	// Unhealthy maps container IDs to the containers whose startup or liveness probe has reached
	// its failure threshold.
	Unhealthy map[string]Unhealthy
	// Since is the pod's start time, from which activeDeadlineSeconds counts. It is zero if the pod
	// has not been started yet.
	Since time.Time
	// GroupLost is true if the pod had a cgroup that no longer exists. The kubelet kills such a pod
	// and starts it again (syncPod in pkg/kubelet).
	GroupLost bool
	// Ephemeral are the names of the ephemeral containers to start. Next does not start a container
	// that was created before.
	Ephemeral []string
	// CreateAhead contains the names of the init containers that podrun may create while the previous
	// one runs.
	CreateAhead map[string]bool
	// CreatedAhead is the ID of the container that this process has created before its turn. It is empty if
	// there is none.
	CreatedAhead string
	// DebugOnly is true if Next plans only actions for ephemeral containers.
	DebugOnly bool
	// BackOff has the node's delays before an exited container is started again. The zero value means
	// the kubelet's defaults.
	BackOff RestartBackOff
}

// changed reports whether a container was created from a definition that differs from the pod's current
// one.
func (w World) changed(c *Container) bool {
	want := w.Hashes[c.Name]
	return want != "" && c.Hash != "" && want != c.Hash
}

// Unhealthy describes a container whose probe has reached its failure threshold.
type Unhealthy struct {
	Message string // "Container app failed liveness probe"
	Grace   *int64 // the probe's own terminationGracePeriodSeconds
}

// Next decides which actions a pod requires. It is pure and contains the complete lifecycle logic. The
// caller executes the actions, observes the pod and calls Next again.
//
// The order is the kubelet's: first the sandbox; then the init containers, each of which must succeed
// before the next one starts; then the app containers in list order. Sidecars (KEP-753) are init
// containers that podrun starts in their turn and keeps running.
func Next(pod *corev1.Pod, w World) Decision {
	if w.Observed.Kept.Terminal() {
		// The pod has ended, even if the runtime has lost the records of its containers.
		return end(w.Observed)
	}
	due := deadline(pod, w.Since)
	if !due.IsZero() && !w.Now.Before(due) && !allEndedBefore(pod, w.Observed, due) {
		d := end(w.Observed)
		d.Overdue = true
		return d
	}
	d := nextStep(pod, w)
	if !due.IsZero() && !d.Ended {
		d.DecideBy(due)
	}
	return d
}

// nextStep is Next without activeDeadlineSeconds.
func nextStep(pod *corev1.Pod, w World) Decision {
	create, attempt, why := needSandbox(pod, w.Observed)
	if !create && w.GroupLost {
		create, attempt, why = true, attempt+1, "its cgroup was removed"
	}
	if create && w.DebugOnly {
		return Decision{Ended: true} // an ephemeral container does not start a pod
	}
	if create {
		return startOver(pod, w, attempt, why)
	}
	var d Decision
	if d.ephemeral(pod, w); w.DebugOnly {
		return d
	}
	if c := requestsRestartAll(pod, w.Observed); c != nil {
		d.restartAll(c, w)
		return d
	}
	if w.Observed.HostsLost && d.killWithoutHosts(pod, w) {
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
		// The pod has ended, even if sidecars need an action, because they do not keep a pod alive.
		return end(w.Observed)
	}
	d.resize(pod, w.Observed, apps)
	return d
}

// ephemeral starts ephemeral containers (KEP-277), even before the pod is initialized. It never
// restarts an ephemeral container, not even in a later sandbox (computePodActions in
// pkg/kubelet/kuberuntime).
func (d *Decision) ephemeral(pod *corev1.Pod, w World) {
	for _, name := range w.Ephemeral {
		if w.Observed.Newest(name) == nil {
			d.start(pod, name, w, "not created yet")
		}
	}
}

// hostsFile is the path of the pod's hosts file in a container.
const hostsFile = "/etc/hosts"

// killWithoutHosts adds to d the kills of the running containers that have mounted a directory at
// /etc/hosts, and reports whether there are any. podrun starts them again when all of them have
// exited: the start replaces the directory, so that a later decision would not find the containers
// that still run with it. podrun does not kill a container that it must not start a second time, and
// no regular init container, because its exit would count as its result.
func (d *Decision) killWithoutHosts(pod *corev1.Pod, w World) (kills bool) {
	for _, s := range SpecContainers(pod) {
		c, have := s.Container, w.Observed.Container(s.Container.Name)
		mounted := func(m corev1.VolumeMount) bool { return m.MountPath == hostsFile }
		if have == nil || have.State != Running || s.Ephemeral || s.Init && !podutil.IsRestartableInitContainer(c) || !restartsWhenKilled(pod, c) || slices.ContainsFunc(c.VolumeMounts, mounted) {
			continue
		}
		d.Actions = append(d.Actions, Action{Verb: KillContainer, Container: c.Name, ID: have.ID, Restart: RestartChanged,
			Why: "its /etc/hosts is a directory", Message: fmt.Sprintf("Container %s: its /etc/hosts is a directory, will be restarted", c.Name)})
		kills = true
	}
	return kills
}

// deadline returns when activeDeadlineSeconds expires. It is zero if the pod has no deadline or has
// not been started.
func deadline(pod *corev1.Pod, since time.Time) time.Time {
	if pod.Spec.ActiveDeadlineSeconds == nil || since.IsZero() {
		return time.Time{}
	}
	return since.Add(time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// allEndedBefore reports whether all app containers had exited before the deadline, and none was
// due to be restarted. In that case, the deadline has no effect.
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

// DecideBy requests the next decision at t, unless it is already due earlier.
func (d *Decision) DecideBy(t time.Time) {
	if d.Until.IsZero() || t.Before(d.Until) {
		d.Until = t
	}
}

// nextApp adds to d the actions for one app container. It returns the number of containers that
// run or will run: 1 or 0.
func nextApp(pod *corev1.Pod, c *corev1.Container, w World, d *Decision) int {
	have := w.Observed.Container(c.Name)
	switch {
	case have == nil && w.Observed.hasEnded(pod, c, w.Observed.Latest(c.Name)):
		return 0 // it exited in an earlier sandbox and is not restarted
	case have == nil:
		d.start(pod, c.Name, w, "not created yet")
	case have.State == Running:
		if nextRunning(pod, c, have, w, d) {
			d.Watch = append(d.Watch, have.ID)
		}
	case w.Observed.hasEnded(pod, c, have):
		return 0
	case have.State == Exited:
		d.restart(pod, c, have, w)
	default:
		d.start(pod, c.Name, w, "was "+string(have.State))
	}
	return 1
}

// nextRunning adds to d the action for a running container, and reports whether the container needs
// no action. It replaces the container if its definition has changed; the API allows only the image
// to change.
func nextRunning(pod *corev1.Pod, c *corev1.Container, have *Container, w World, d *Decision) bool {
	if w.changed(have) {
		d.replace(pod, have, w, Action{Why: "its definition changed",
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
		d.replace(pod, have, w, Action{Why: why, Message: why})
		return false
	}
	if HasPostStart(c) && w.Observed.Hooks[have.ID] != HookDone {
		d.Actions = append(d.Actions, Action{
			Verb:      RunPostStart,
			Container: c.Name,
			ID:        have.ID,
			Attempt:   have.Restarts,
			Why:       "its postStart hook may not have finished",
		})
		return false
	}
	return true
}

// replace kills a container and starts it again, even if its restart policy is Never. The argument
// kill contains the reason and the message.
func (d *Decision) replace(pod *corev1.Pod, have *Container, w World, kill Action) {
	kill.Verb = KillContainer
	kill.Container = have.Name
	kill.ID = have.ID
	kill.Restart = RestartChanged
	d.Actions = append(d.Actions, kill)
	d.start(pod, have.Name, w, kill.Why)
}

// start adds to d the start of a container, with its restart count. As in the kubelet, a container that
// was created but not started counts as a run, unless podrun created it before its turn. If the runtime
// has no container of this name, the number of logs determines the count.
func (d *Decision) start(pod *corev1.Pod, name string, w World, why string) {
	attempt := w.Observed.LoggedRuns[name]
	if last := w.Observed.Newest(name); last != nil {
		if attempt = last.Restarts + 1; last.ID == w.CreatedAhead || w.Observed.createdAhead(pod, last) {
			attempt = last.Restarts
		}
	}
	d.Actions = append(d.Actions, Action{Verb: StartContainer, Container: name, Attempt: attempt, Why: why})
}

// minRestartAll is the minimum time between the start of a container and the restart of all containers that its
// exit requires. The kubelet has no back-off, but observes an exit up to a second later (its PLEG's relist
// period).
const minRestartAll = time.Second

// restartAll restarts all containers of the pod, without a back-off.
func (d *Decision) restartAll(c *Container, w World) {
	at := c.StartedAt.Add(minRestartAll)
	// If the clock was set back, the delay must not become longer.
	if left := at.Sub(w.Now); !c.StartedAt.IsZero() && left > 0 && left <= minRestartAll {
		d.DecideBy(at)
		return
	}
	d.Actions = append(d.Actions, Action{Verb: RestartAll, Container: c.Name, ID: c.ID,
		Why: fmt.Sprintf("container %s exited with %d: its restart rule restarts all containers of the pod", c.Name, c.ExitCode)})
}

// restart starts an exited container again, unless it is in back-off. If podrun killed the container to
// resize it, or because of its /etc/hosts, there is no back-off.
func (d *Decision) restart(pod *corev1.Pod, c *corev1.Container, last *Container, w World) {
	if w.Observed.HostsLost || w.Observed.resizeRestarts(pod, c, last) || !d.backsOff(last, w) {
		d.start(pod, last.Name, w, fmt.Sprintf("exited with %d", last.ExitCode))
	}
}

// backsOff reports whether an exited container is in back-off. If it is, backsOff requests another
// decision at the end of the delay. A back-off of the container's previous definition does not apply.
func (d *Decision) backsOff(c *Container, w World) bool {
	if w.changed(c) {
		return false
	}
	delay := RestartDelay(c, w.BackOff)
	at := c.FinishedAt.Add(delay)
	// If the clock was set back, the delay must not become longer.
	if left := at.Sub(w.Now); left <= 0 || left >= 2*delay {
		return false
	}
	d.DecideBy(at)
	d.BackOff = append(d.BackOff, c.Name)
	return true
}

// HasPostStart reports whether a container has a postStart hook.
func HasPostStart(c *corev1.Container) bool {
	return c.Lifecycle != nil && c.Lifecycle.PostStart != nil
}
