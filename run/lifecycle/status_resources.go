package lifecycle

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Actual contains the resources of a container as reported by the runtime, in CRI units; 0 means not
// set.
type Actual struct {
	CPUShares   int64 `json:"cpuShares,omitempty"`
	CPUQuota    int64 `json:"cpuQuota,omitempty"`
	CPUPeriod   int64 `json:"cpuPeriod,omitempty"`
	MemoryLimit int64 `json:"memoryLimit,omitempty"`
}

// The minimum effective values. If the runtime's value is not greater, the status shows the value
// of the spec (pkg/kubelet/cm, MinMilliCPULimit and MinShares).
const (
	minMilliCPULimit = 10
	minShares        = 2
)

// actualResources returns a container's resources for its status (KEP-1287). These are the
// resources in the spec or, while the container is running, the runtime's values, which differ
// from the spec until a resize has taken effect.
func actualResources(c *corev1.Container, have *Container, resize *Resize) *corev1.ResourceRequirements {
	r := c.Resources.DeepCopy()
	a := have.Actual
	if have.State != Running {
		return r
	}
	// the memory request comes from the resize, because the runtime does not report memory requests
	if resize != nil && r.Requests != nil {
		if had := resize.Containers[have.ID]; had.MemoryRequest > 0 {
			r.Requests[corev1.ResourceMemory] = *resource.NewQuantity(had.MemoryRequest, resource.BinarySI)
		}
	}
	if a == nil {
		return r
	}
	if r.Limits != nil && a.CPUPeriod > 0 && a.CPUQuota > 0 {
		milli := a.CPUQuota * 1000 / a.CPUPeriod
		if milli > minMilliCPULimit || r.Limits.Cpu().MilliValue() > minMilliCPULimit {
			r.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
	}
	if r.Limits != nil && a.MemoryLimit > 0 {
		r.Limits[corev1.ResourceMemory] = *resource.NewQuantity(a.MemoryLimit, resource.BinarySI)
	}
	if r.Requests != nil && a.CPUShares > 0 {
		milli := (a.CPUShares*1000 + 1023) / 1024
		if milli > minShares || r.Requests.Cpu().MilliValue() > minShares {
			r.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		}
	}
	return r
}
