package resource

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/kubernetes/pkg/kubelet/qos"
)

// OOMScoreAdj returns the container's oom_score_adj on a host that has memoryCapacity bytes of
// memory. For a pod of class system-node-critical, OOMScoreAdj uses the priority of this class,
// even if the pod's priority is not resolved, so that the kernel kills the pod last.
func OOMScoreAdj(pod *corev1.Pod, c *corev1.Container, memoryCapacity int64) int64 {
	if pod.Spec.PriorityClassName == scheduling.SystemNodeCritical && pod.Spec.Priority == nil {
		critical := *pod
		priority := int32(scheduling.SystemCriticalPriority + 1000)
		critical.Spec.Priority = &priority
		pod = &critical
	}
	if memoryCapacity <= 0 {
		// The capacity is unknown. With this value, the container's share of the memory is about
		// zero.
		memoryCapacity = math.MaxInt64
	}
	return int64(qos.GetContainerOOMScoreAdjust(pod, c, memoryCapacity))
}
