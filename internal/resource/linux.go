package resource

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Node contains the properties of a node that determine the resources in CRI requests.
type Node struct {
	CFSQuota     bool  // the kubelet's cpuCFSQuota
	PeriodMicros int64 // cpuCFSQuotaPeriod in µs
	CgroupV2     bool
}

// Linux converts CPU and memory of a container or a sandbox. If cpuRequest is nil, Linux uses the
// limit as the request. On cgroup v2, the kernel kills all processes of the group if the group is
// out of memory, because the kubelet's singleProcessOOMKill defaults to false on cgroup v2 (issue
// 117793).
func Linux(n Node, cpuRequest, cpuLimit, memoryLimit *resource.Quantity) *runtimeapi.LinuxContainerResources {
	if cpuRequest == nil {
		cpuRequest = cpuLimit
	}
	r := &runtimeapi.LinuxContainerResources{
		CpuShares:          int64(CPUShares(cpuRequest.MilliValue())),
		MemoryLimitInBytes: memoryLimit.Value(),
	}
	if n.CFSQuota {
		r.CpuPeriod = n.PeriodMicros
		r.CpuQuota = CPUQuota(cpuLimit.MilliValue(), n.PeriodMicros)
	}
	if n.CgroupV2 {
		r.Unified = map[string]string{"memory.oom.group": "1"}
	}
	return r
}

// SandboxLinux returns the resources of the whole pod without its overhead, for the sandbox
// configuration. Runtimes that size a virtual machine read them (KEP-2371).
func SandboxLinux(n Node, pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	opts := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
	requests := resourcehelper.PodRequests(pod, opts)
	limits := resourcehelper.PodLimits(pod, opts)
	return Linux(n, Given(requests, corev1.ResourceCPU), limits.Cpu(), limits.Memory())
}

// OverheadLinux returns the pod's overhead as both request and limit. The result is empty if
// the pod has no overhead.
func OverheadLinux(n Node, pod *corev1.Pod) *runtimeapi.LinuxContainerResources {
	if pod.Spec.Overhead == nil {
		return &runtimeapi.LinuxContainerResources{}
	}
	cpu := pod.Spec.Overhead.Cpu()
	return Linux(n, cpu, cpu, pod.Spec.Overhead.Memory())
}

// Given returns the quantity with the given name. It returns nil if the list does not contain it.
func Given(list corev1.ResourceList, name corev1.ResourceName) *resource.Quantity {
	if q, ok := list[name]; ok {
		return &q
	}
	return nil
}
