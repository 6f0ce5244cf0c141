package view

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// ContainerStatuses returns the statuses of all containers of a pod.
func ContainerStatuses(p *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(p.Status.ContainerStatuses, p.Status.InitContainerStatuses, p.Status.EphemeralContainerStatuses)
}
