// Package resource converts between the API's resources and the kernel's: shares, quotas,
// OOM scores and the QoS class. The formulas are the kubelet's
// (pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/qos/policy.go).
package resource

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// PodRequests sums what the pod requests: init containers, sidecars and
// overhead as the scheduler counts them, pod-level resources first.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// PodLimits sums the pod's limits in the same way.
func PodLimits(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
}
