// Package resource converts between the API's resources and the kernel's: shares, quotas,
// OOM scores and the QoS class. The formulas are the kubelet's
// (pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/qos/policy.go).
package resource

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/kubelet/qos"
)

// Bounds of the kernel's cpu controller.
const (
	MinShares      = 2
	MaxShares      = 262144
	sharesPerCPU   = 1024
	milliPerCPU    = 1000
	minQuotaMicros = 1000
)

// CPUShares converts milli-CPUs to cpu.shares, 2 to 262144; nothing is 2.
func CPUShares(milli int64) uint64 {
	shares := milli * sharesPerCPU / milliPerCPU
	return uint64(min(max(shares, MinShares), MaxShares))
}

// CPUQuota converts milli-CPUs to a CFS quota in µs for a period in µs, at
// least 1000; 0 milli-CPUs is 0, no quota.
func CPUQuota(milli, periodMicros int64) int64 {
	if milli == 0 {
		return 0
	}
	return max(milli*periodMicros/milliPerCPU, minQuotaMicros)
}

// QOSClass is the pod's QoS class, pod-level resources included.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass { return v1qos.ComputePodQOS(pod) }

// OOMScoreAdj is the container's oom_score_adj on a host with that much memory,
// in bytes. A pod of class system-node-critical has that class's priority also
// if it was not resolved, so that it is the last to be killed.
func OOMScoreAdj(pod *corev1.Pod, c *corev1.Container, memoryCapacity int64) int64 {
	if pod.Spec.PriorityClassName == scheduling.SystemNodeCritical && pod.Spec.Priority == nil {
		critical := *pod
		priority := int32(scheduling.SystemCriticalPriority + 1000)
		critical.Spec.Priority = &priority
		pod = &critical
	}
	if memoryCapacity <= 0 {
		memoryCapacity = math.MaxInt64 // facts without it: no share of the memory counts
	}
	return int64(qos.GetContainerOOMScoreAdjust(pod, c, memoryCapacity))
}

// PodRequests sums what the pod requests: init containers, sidecars and
// overhead as the scheduler counts them, pod-level resources first.
func PodRequests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// PodLimits sums the pod's limits in the same way.
func PodLimits(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
}
