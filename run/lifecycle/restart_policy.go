package lifecycle

import (
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// startsAgain reports whether a container that has exited is started again: because podrun
// killed it for that, or by its own restart policy and rules (KEP-5307) or the pod's.
func (o *Observed) startsAgain(pod *corev1.Pod, c *corev1.Container, have *Container) bool {
	switch o.pendingRestart(have).Cause {
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

// requestsRestartAll finds a container that has exited in a way for which its rules
// restart the whole pod (KEP-5532). The exit code of a container that podrun killed to start
// it again counts for no rule.
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
