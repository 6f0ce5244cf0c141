package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// createdAhead reports whether podrun created a container before its turn and has not started it yet.
// The kubelet creates a container when its turn comes: after it has started the previous app container,
// or after the previous init container has completed. podrun creates a container before its turn only
// for the container's first run, and only while the previous container is also in its first run.
func (o *Observed) createdAhead(pod *corev1.Pod, c *Container) bool {
	if c.State != Created || c.Restarts > 0 {
		return false
	}
	previous, init := containerBefore(pod, c.Name)
	if previous == nil || podutil.IsRestartableInitContainer(previous) {
		return false
	}
	p := o.inSandbox(previous.Name, c.SandboxID)
	switch {
	case p == nil || p.Restarts > 0:
		return false
	case init:
		return p.State != Exited || p.ExitCode != 0 || c.CreatedAt.Before(p.FinishedAt)
	}
	return p.StartedAt.IsZero() || c.CreatedAt.Before(p.StartedAt)
}

// WithoutCreatedAhead returns o without the containers that podrun created before their turn. To users,
// these containers do not exist yet, because the kubelet would not have created them.
func (o *Observed) WithoutCreatedAhead(pod *corev1.Pod) *Observed {
	shown := *o
	shown.Containers = slices.DeleteFunc(slices.Clone(o.Containers), func(c Container) bool { return o.createdAhead(pod, &c) })
	return &shown
}

// containerBefore returns the container that precedes another one of the same kind in the pod's spec,
// or nil if there is none. It also reports whether the container is an init container.
func containerBefore(pod *corev1.Pod, name string) (previous *corev1.Container, init bool) {
	named := func(c corev1.Container) bool { return c.Name == name }
	if i := slices.IndexFunc(pod.Spec.InitContainers, named); i > 0 {
		return &pod.Spec.InitContainers[i-1], true
	}
	if i := slices.IndexFunc(pod.Spec.Containers, named); i > 0 {
		return &pod.Spec.Containers[i-1], false
	}
	return nil, false
}

// inSandbox returns the newest container with the given name in a sandbox; nil if there is
// none.
func (o *Observed) inSandbox(name, sandboxID string) *Container {
	for i := range o.Containers {
		if c := &o.Containers[i]; c.Name == name && c.SandboxID == sandboxID {
			return c
		}
	}
	return nil
}
