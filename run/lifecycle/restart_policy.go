package lifecycle

import (
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// startsAgain reports whether podrun starts an exited container again. It returns true if podrun
// killed the container in order to restart it. Otherwise the container's restart policy and rules
// apply (KEP-5307) or, if the container has none, the pod's policy.
func (o *Observed) startsAgain(pod *corev1.Pod, c *corev1.Container, have *Container) bool {
	switch o.pendingRestart(have).Cause {
	case RestartChanged, RestartSandbox:
		return true
	case RestartUnhealthy:
		return restartsWhenKilled(pod, c)
	}
	return podutil.ContainerShouldRestart(*c, pod.Spec, have.ExitCode)
}

// hasEnded reports whether a container has exited and will not be started again.
func (o *Observed) hasEnded(pod *corev1.Pod, c *corev1.Container, last *Container) bool {
	return last != nil && last.State == Exited && !o.startsAgain(pod, c, last)
}

// restartsWhenKilled reports whether podrun restarts a container that it has killed because of a
// failed probe. Restart rules do not apply, because they depend on the exit code, which is unknown
// when podrun decides to kill the container (computePodActions in pkg/kubelet/kuberuntime).
func restartsWhenKilled(pod *corev1.Pod, c *corev1.Container) bool {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy != corev1.ContainerRestartPolicyNever
	}
	return pod.Spec.RestartPolicy != corev1.RestartPolicyNever
}

// requestsRestartAll returns an exited container whose restart rules require a restart of all
// containers of the pod (KEP-5532), or nil if there is none. The rules do not apply to the exit code of
// a container that podrun killed in order to start it again.
func requestsRestartAll(pod *corev1.Pod, obs *Observed) *Container {
	for _, s := range SpecContainers(pod) {
		c := obs.Container(s.Container.Name)
		if c == nil || c.State != Exited || obs.pendingRestart(c).Cause != "" {
			continue
		}
		rule, ok := podutil.FindMatchingContainerRestartRule(*s.Container, c.ExitCode)
		if ok && rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
			return c
		}
	}
	return nil
}
