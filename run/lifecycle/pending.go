package lifecycle

import (
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// RestartCause is why podrun kills a container that it starts again. The kubelet decides to
// kill and to start in one pass (computePodActions in pkg/kubelet/kuberuntime); podrun records
// the cause before the kill, because a pass can be interrupted: the exit code of a container
// that podrun killed says nothing about what its restart policy requires.
type RestartCause string

// The causes.
const (
	// RestartChanged means that the definition of the container changed, or that a resize
	// requires its restart (KEP-1287). Its restart policy does not matter.
	RestartChanged RestartCause = "Changed"
	// RestartUnhealthy means that its startup or liveness probe failed. Its own restart policy,
	// otherwise that of the pod, is not Never; its restart rules do not count.
	RestartUnhealthy RestartCause = "Unhealthy"
	// RestartSandbox means that the pod is started over in a new sandbox. A pod whose restart
	// policy is Never is not; otherwise no policy of a container that ran matters.
	RestartSandbox RestartCause = "Sandbox"
)

// WithPendingRestarts returns the pending restarts with those of more containers, and without
// those of containers that were removed or started again. The result is a new map.
func (o *Observed) WithPendingRestarts(more map[string]RestartCause) map[string]RestartCause {
	out := map[string]RestartCause{}
	for _, c := range o.Containers {
		cause, ok := more[c.ID]
		if !ok {
			cause, ok = o.PendingRestarts[c.ID]
		}
		if ok && o.Newest(c.Name).ID == c.ID {
			out[c.ID] = cause
		}
	}
	return out
}

// startsAgain reports whether a container that has exited is started again: because podrun
// killed it for that, or by its own restart policy and rules (KEP-5307) or the pod's.
func (o *Observed) startsAgain(pod *corev1.Pod, c *corev1.Container, have *Container) bool {
	switch o.PendingRestarts[have.ID] {
	case RestartChanged, RestartSandbox:
		return true
	case RestartUnhealthy:
		return restartsWhenKilled(pod, c)
	}
	return podutil.ContainerShouldRestart(*c, pod.Spec, have.ExitCode)
}

// hasEnded reports whether a container has exited and is not started again.
func (o *Observed) hasEnded(pod *corev1.Pod, c *corev1.Container, last *Container) bool {
	return last != nil && last.State == Exited && !o.startsAgain(pod, c, last)
}

// restartsWhenKilled reports whether a container that podrun kills because of a probe is
// started again (computePodActions in pkg/kubelet/kuberuntime: restart rules are about exit
// codes, and a running container has none).
func restartsWhenKilled(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// leavesSandbox reports whether podrun has killed containers of the current sandbox, or was
// about to, to start the pod over in a new one.
func (o *Observed) leavesSandbox() bool {
	s := o.Sandbox()
	for _, c := range o.Containers {
		if s != nil && c.SandboxID == s.ID && o.PendingRestarts[c.ID] == RestartSandbox {
			return true
		}
	}
	return false
}
