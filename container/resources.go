package container

import (
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/podrun/podrun/internal/resource"
)

// requirements computes the resources of a container.
type requirements struct {
	in        *Input
	container *corev1.Container
}

func (p Plan) requirements() requirements { return requirements{&p.in, p.container} }

// Resources returns the resources to set on a running container for a resize (KEP-1287).
func (p Plan) Resources() *runtimeapi.LinuxContainerResources { return p.requirements().linux() }

// linux returns the container's resources. If the container has no limit but the pod has one,
// the pod's limit applies (KEP-2837).
func (q requirements) linux() *runtimeapi.LinuxContainerResources {
	own := q.container.Resources
	r := resource.Linux(q.node(),
		resource.Given(own.Requests, corev1.ResourceCPU),
		q.limit(own.Limits.Cpu(), corev1.ResourceCPU),
		q.limit(own.Limits.Memory(), corev1.ResourceMemory))
	r.OomScoreAdj = resource.OOMScoreAdj(q.in.Pod, q.container, q.in.Facts.Capacity.Memory().Value())
	r.HugepageLimits = q.hugepages()
	q.swap(r)
	if q.node().CgroupV2 && q.in.Settings.Gate("MemoryQoS", false) {
		q.memoryQoS(r)
	}
	return r
}

func (q requirements) limit(own *apiresource.Quantity, name corev1.ResourceName) *apiresource.Quantity {
	if own.IsZero() && resourcehelper.IsPodLevelResourcesSet(q.in.Pod) {
		if q := resource.Given(q.in.Pod.Spec.Resources.Limits, name); q != nil {
			return q
		}
	}
	return own
}

// hugepages returns a limit for every page size of the host: the container's limit or, if it has
// none, the pod's limit or, if that is not set either, 0. If the host does not have the controller,
// containerd ignores these limits, but CRI-O fails to create a container that has one.
func (q requirements) hugepages() []*runtimeapi.HugepageLimit {
	if q.in.Facts.Runtime.IsCRIO() && !q.in.Facts.Cgroup.Has("hugetlb") {
		return nil
	}
	limits := map[string]uint64{}
	add := func(list corev1.ResourceList) {
		for name, q := range list {
			if size, err := pageSize(name); err == nil {
				limits[size] = uint64(q.Value())
			}
		}
	}
	if resourcehelper.IsPodLevelResourcesSet(q.in.Pod) {
		add(q.in.Pod.Spec.Resources.Limits)
	}
	add(q.container.Resources.Limits)

	var out []*runtimeapi.HugepageLimit
	for _, bytes := range q.in.Facts.HugePageSizes {
		if size, err := v1helper.HugePageUnitSizeFromByteSize(bytes); err == nil {
			out = append(out, &runtimeapi.HugepageLimit{PageSize: size, Limit: limits[size]})
		}
	}
	return out
}

// pageSize converts hugepages-2Mi to 2MB, the kernel's notation.
func pageSize(name corev1.ResourceName) (string, error) {
	q, err := v1helper.HugePageSizeFromResourceName(name)
	if err != nil {
		return "", err
	}
	return v1helper.HugePageUnitSizeFromByteSize(q.Value())
}

// swap limits the container's swap, provided that the kernel can limit it. The kubelet's default
// is no swap (NoSwap, KEP-2400). On cgroup v1, the limit for memory and swap together is then
// the memory limit.
func (q requirements) swap(r *runtimeapi.LinuxContainerResources) {
	switch {
	case !q.in.SwapLimits:
	case q.node().CgroupV2:
		r.Unified["memory.swap.max"] = strconv.FormatInt(q.swapShare(), 10)
	default:
		r.MemorySwapLimitInBytes = r.MemoryLimitInBytes
	}
}

// swapShare returns the container's swap limit in bytes. With LimitedSwap, a container of a
// Burstable pod gets the same fraction of the host's swap that it requests of the host's memory. A
// container may not use swap if its pod is critical, or if its memory request equals its limit.
func (q requirements) swapShare() int64 {
	request, limit := q.container.Resources.Requests.Memory(), q.container.Resources.Limits.Memory()
	capacity := q.in.Facts.Capacity.Memory().Value()
	if q.in.Settings.SwapBehavior != "LimitedSwap" || !q.in.Settings.Gate("NodeSwap", true) ||
		resource.QOSClass(q.in.Pod) != corev1.PodQOSBurstable || kubelettypes.IsCriticalPodBasedOnPriority(schedulingv1.PodPriority(q.in.Pod)) ||
		request.Cmp(*limit) == 0 || capacity <= 0 || request.Value() > capacity {
		return 0
	}
	return int64(float64(request.Value()) / float64(capacity) * float64(q.in.Facts.SwapTotal))
}

// The kubelet's default memoryThrottlingFactor, and the page size to which memory.high is rounded
// down (KEP-2570).
const (
	throttlingFactor = 0.9
	kernelPage       = 4096
)

// memoryQoS throttles a container before it reaches its limit (KEP-2570, gate MemoryQoS, alpha). It
// does not set memory.min or memory.low, because the kubelet's default memoryReservationPolicy is
// None.
func (q requirements) memoryQoS(r *runtimeapi.LinuxContainerResources) {
	r.Unified["memory.min"], r.Unified["memory.low"] = "0", "0"
	request := q.container.Resources.Requests.Memory().Value()
	limit := q.container.Resources.Limits.Memory().Value()
	if request == limit {
		return
	}
	ceiling := limit
	if ceiling == 0 {
		ceiling = q.in.Allocatable.Memory().Value()
	}
	pages := math.Floor((float64(request) + float64(ceiling-request)*throttlingFactor) / kernelPage)
	if high := int64(pages) * kernelPage; high > request {
		r.Unified["memory.high"] = strconv.FormatInt(high, 10)
	}
}

// node returns the properties of the node that the calculation of resources requires.
func (q requirements) node() resource.Node {
	return resource.Node{
		CFSQuota:     q.in.Settings.CPUCFSQuota,
		PeriodMicros: int64(q.in.Settings.CPUCFSQuotaPeriod / time.Microsecond),
		CgroupV2:     q.in.Facts.Cgroup.Version == 2,
	}
}
