// Package resource converts the resources of the API to those of the kernel: shares, quotas,
// OOM scores and the QoS class. The formulas are the kubelet's
// (pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/qos/policy.go).
package resource

import (
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// PodRequests returns the sum of the pod's requests. It counts init containers, sidecars and
// overhead like the scheduler. Pod-level resources take precedence.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// PodLimits returns the sum of the pod's limits, which it computes in the same way as PodRequests.
func PodLimits(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
}
