package cgroup

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	corehelper "k8s.io/kubernetes/pkg/apis/core/v1/helper"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/resource"
)

// unboundedHugePages is the limit that the kubelet sets on groups that have no limit.
const unboundedHugePages = 1 << 62

// podResources returns the values of the pod's cgroup, as the kubelet sets them
// (pkg/kubelet/cm/helpers_linux.go). The pod's requests determine the CPU weight. The result has a
// quota or a memory limit only if every container, or the pod itself, has this limit. It omits
// values whose controllers are not available.
func podResources(in Input, class corev1.PodQOSClass) Resources {
	c := in.Facts.Cgroup
	requests := resource.PodRequests(in.Pod)
	limits, everyCPU, everyMemory := declaredLimits(in.Pod)
	r := Resources{}
	if c.Has("cpu") {
		r.setWeight(c.Version, requests.Cpu().MilliValue())
		if class != corev1.PodQOSBestEffort && everyCPU {
			r.CPUPeriod = in.period()
			r.CPUQuota = -1
			if in.Settings.CPUCFSQuota {
				r.CPUQuota = resource.CPUQuota(limits.Cpu().MilliValue(), int64(r.CPUPeriod))
			}
		}
	}
	if c.Has("memory") && class != corev1.PodQOSBestEffort && everyMemory {
		r.Memory = limits.Memory().Value()
	}
	if c.Has("pids") && in.Settings.PodPidsLimit > 0 {
		r.PidsLimit = in.Settings.PodPidsLimit
	}
	r.HugePages = podHugePages(c, in.Facts.HugePageSizes, requests)
	return r
}

// declaredLimits sums the pod's limits. It also reports whether they limit the whole pod: this
// requires that every container, including init containers, or the pod itself has the limit
// (KEP-2837).
func declaredLimits(pod *corev1.Pod) (limits corev1.ResourceList, everyCPU, everyMemory bool) {
	everyCPU, everyMemory = true, true
	limits = resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{
		ContainerFn: func(res corev1.ResourceList, _ resourcehelper.ContainerType) {
			everyCPU = everyCPU && !res.Cpu().IsZero()
			everyMemory = everyMemory && !res.Memory().IsZero()
		},
	})
	if pod.Spec.Resources != nil {
		everyCPU = everyCPU || !pod.Spec.Resources.Limits.Cpu().IsZero()
		everyMemory = everyMemory || !pod.Spec.Resources.Limits.Memory().IsZero()
	}
	return limits, everyCPU, everyMemory
}

// period returns the CFS period in µs. Like the kubelet, it uses the setting only if the
// feature gate is enabled.
func (in Input) period() uint64 {
	if p := in.Settings.CPUCFSQuotaPeriod; p > 0 && in.Settings.Gate("CustomCPUCFSQuotaPeriod", false) {
		return uint64(p.Microseconds())
	}
	return 100_000
}

// setWeight sets the CPU weight that corresponds to the milli-CPUs.
func (r *Resources) setWeight(version int, milli int64) {
	shares := resource.CPUShares(milli)
	if version == 1 {
		r.CPUShares = shares
		return
	}
	// This is the kubelet's conversion, which is linear from [2, 262144] to [1, 10000]. Since 2025, runtimes use a
	// nonlinear conversion. However, all siblings must be converted in the same way, and the siblings of a pod's
	// cgroup are the cgroups of other pods, which a kubelet may have created.
	r.CPUWeight = 1 + (shares-2)*9999/262142
}

// podHugePages limits every page size of the host. The limit is the pod's request, or zero if the
// pod has none for the size.
func podHugePages(c host.Cgroup, sizes []int64, requests corev1.ResourceList) []HugePages {
	wanted := map[int64]uint64{}
	for name, q := range requests {
		if size, err := corehelper.HugePageSizeFromResourceName(name); err == nil {
			wanted[size.Value()] += uint64(q.Value())
		}
	}
	return hugePages(c, sizes, func(size int64) uint64 { return wanted[size] })
}

// hugePages returns a limit for each page size. It returns nil if the hugetlb controller is not
// available, because runc would fail to write a file that does not exist.
func hugePages(c host.Cgroup, sizes []int64, limit func(size int64) uint64) []HugePages {
	if !c.Has("hugetlb") {
		return nil
	}
	var out []HugePages
	for _, size := range sizes {
		out = append(out, HugePages{Size: pageSizeName(size), Limit: limit(size)})
	}
	return out
}

// pageSizeName returns a page size in the notation of the kernel's hugetlb files, such as 64KB,
// 2MB or 1GB.
func pageSizeName(size int64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for size >= 1024 && size%1024 == 0 && i < len(units)-1 {
		size /= 1024
		i++
	}
	return fmt.Sprintf("%d%s", size, units[i])
}
