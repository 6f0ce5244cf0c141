package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// needSandbox reports whether the pod needs a new sandbox, and returns its attempt and the reason.
func needSandbox(pod *corev1.Pod, obs *Observed) (bool, uint32, string) {
	s := obs.Sandbox()
	if s == nil {
		return true, 0, "the pod has no sandbox"
	}
	ready := 0
	for i := range obs.Sandboxes {
		if obs.Sandboxes[i].Ready {
			ready++
		}
	}
	next := s.Attempt + 1
	switch {
	case ready > 1:
		return true, next, "more than one sandbox is ready"
	case !s.Ready:
		return true, next, "its sandbox is not ready"
	case s.HostNetwork != pod.Spec.HostNetwork:
		return true, next, "the network mode of its sandbox differs"
	case !pod.Spec.HostNetwork && len(s.IPs) == 0:
		return true, next, "its sandbox has no IP address"
	case obs.restartsInNewSandbox():
		return true, next, "its containers were killed to replace the sandbox"
	}
	return false, s.Attempt, ""
}

// startOver returns a decision that creates a new sandbox, with the first actions in it.
func startOver(pod *corev1.Pod, w World, attempt uint32, why string) Decision {
	obs := w.Observed
	if obs.Sandbox() != nil && pod.Spec.RestartPolicy == corev1.RestartPolicyNever && AnyStarted(obs) && !anyStartsAgain(pod, obs) {
		// The pod has lost its sandbox, for example in a reboot, and must not be restarted. Its
		// containers have exited, so the pod has ended.
		return end(obs)
	}
	var d Decision
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if !obs.hasEnded(pod, c, obs.Latest(c.Name)) {
			d.start(pod, c.Name, w, why)
		}
	}
	if len(d.Actions) == 0 && len(pod.Spec.Containers) > 0 {
		return end(obs)
	}
	if len(pod.Spec.InitContainers) > 0 {
		d.Actions = nil
		d.start(pod, pod.Spec.InitContainers[0].Name, w, why)
	}
	before := []Action{{Verb: CreateSandbox, Attempt: attempt, Why: why}}
	if obs.Sandbox() != nil {
		before = append([]Action{{Verb: KillPod, Why: why, Restart: RestartSandbox}}, before...)
	}
	d.Actions = append(before, d.Actions...)
	return d
}

// anyStartsAgain reports whether podrun killed an app container that it must start again, even if
// the container's restart policy is Never.
func anyStartsAgain(pod *corev1.Pod, obs *Observed) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		last := obs.Latest(c.Name)
		return last != nil && obs.pendingRestart(last).Cause == RestartChanged
	})
}

// AnyStarted reports whether any container of the pod was started. A container that was created but
// never started does not count. The kubelet counts such a container, and leaves the pod pending
// forever. CRI-O reports such a container as exited when its sandbox has been stopped.
func AnyStarted(obs *Observed) bool {
	return slices.ContainsFunc(obs.Containers, func(c Container) bool {
		unstarted := c.State == Exited && c.StartedAt.IsZero() && c.Reason != reasonStartError
		return c.State != Created && !unstarted
	})
}

// reasonStartError is containerd's reason for a container whose start failed. Such a container has no
// start time.
const reasonStartError = "StartError"

// end stops the remaining containers of an ended pod.
func end(obs *Observed) Decision {
	d := Decision{Ended: true}
	for i := range obs.Sandboxes {
		if obs.Sandboxes[i].Ready {
			d.Actions = []Action{{Verb: KillPod, Why: "the pod has ended"}}
		}
	}
	return d
}
