package container

import (
	"math"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"

	"github.com/podrun/podrun/resource"
)

// resources are the container's. A limit that it does not have is the pod's,
// where the pod has limits of its own (KEP-2837).
func (p Plan) resources() *runtimeapi.LinuxContainerResources {
	own := p.container.Resources
	r := resource.Linux(p.node(),
		resource.Given(own.Requests, corev1.ResourceCPU),
		p.limit(own.Limits.Cpu(), corev1.ResourceCPU),
		p.limit(own.Limits.Memory(), corev1.ResourceMemory))
	r.OomScoreAdj = resource.OOMScoreAdj(p.in.Pod, p.container, p.in.Facts.Capacity.Memory().Value())
	r.HugepageLimits = p.hugepages()
	p.denySwap(r)
	if p.node().CgroupV2 && p.in.Settings.Gate("MemoryQoS", false) {
		p.memoryQoS(r)
	}
	return r
}

func (p Plan) limit(own *apiresource.Quantity, name corev1.ResourceName) *apiresource.Quantity {
	if own.IsZero() && resourcehelper.IsPodLevelResourcesSet(p.in.Pod) {
		if q := resource.Given(p.in.Pod.Spec.Resources.Limits, name); q != nil {
			return q
		}
	}
	return own
}

// hugepages limits every page size of the host, to nothing unless the container
// or else the pod has a limit.
func (p Plan) hugepages() []*runtimeapi.HugepageLimit {
	limits := map[string]uint64{}
	add := func(list corev1.ResourceList) {
		for name, q := range list {
			if size, err := pageSize(name); err == nil {
				limits[size] = uint64(q.Value())
			}
		}
	}
	if resourcehelper.IsPodLevelResourcesSet(p.in.Pod) {
		add(p.in.Pod.Spec.Resources.Limits)
	}
	add(p.container.Resources.Limits)

	var out []*runtimeapi.HugepageLimit
	for _, bytes := range p.in.Facts.HugePageSizes {
		if size, err := v1helper.HugePageUnitSizeFromByteSize(bytes); err == nil {
			out = append(out, &runtimeapi.HugepageLimit{PageSize: size, Limit: limits[size]})
		}
	}
	return out
}

// pageSize turns hugepages-2Mi into 2MB, the kernel's way to write it.
func pageSize(name corev1.ResourceName) (string, error) {
	q, err := v1helper.HugePageSizeFromResourceName(name)
	if err != nil {
		return "", err
	}
	return v1helper.HugePageUnitSizeFromByteSize(q.Value())
}

// denySwap keeps the container from swapping, the kubelet's default (NoSwap,
// KEP-2400). On v1 the limit of memory and swap together is that of memory.
func (p Plan) denySwap(r *runtimeapi.LinuxContainerResources) {
	switch {
	case !p.in.SwapLimits:
	case p.node().CgroupV2:
		r.Unified["memory.swap.max"] = "0"
	default:
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	}
}

// Of KEP-2570: the kubelet's default memoryThrottlingFactor, and the page that
// memory.high is rounded down to.
const (
	throttlingFactor = 0.9
	kernelPage       = 4096
)

// memoryQoS throttles a container before it reaches its limit (KEP-2570, gate
// MemoryQoS, alpha). Nothing is reserved: the kubelet's memoryReservationPolicy
// is None by default.
func (p Plan) memoryQoS(r *runtimeapi.LinuxContainerResources) {
	r.Unified["memory.min"], r.Unified["memory.low"] = "0", "0"
	request := p.container.Resources.Requests.Memory().Value()
	limit := p.container.Resources.Limits.Memory().Value()
	if request == limit {
		return
	}
	ceiling := limit
	if ceiling == 0 {
		ceiling = p.in.Allocatable.Memory().Value()
	}
	pages := math.Floor((float64(request) + float64(ceiling-request)*throttlingFactor) / kernelPage)
	if high := int64(pages) * kernelPage; high > request {
		r.Unified["memory.high"] = strconv.FormatInt(high, 10)
	}
}
