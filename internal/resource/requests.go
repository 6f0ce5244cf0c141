// Package resource converts between the API's resources and the kernel's: shares, quotas,
// OOM scores and the QoS class. The formulas are the kubelet's
// (pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/qos/policy.go).
package resource

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// PodRequests returns the sum of the pod's requests. It accounts for init containers,
// sidecars and overhead as the scheduler does; pod-level resources take precedence.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// PodLimits returns the sum of the pod's limits, computed in the same way.
func PodLimits(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
}
