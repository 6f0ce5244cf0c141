package volume

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	v1helper "k8s.io/kubernetes/pkg/apis/core/v1/helper"

	"github.com/podrun/podrun/internal/problem"
)

const emptyDirPlugin = "kubernetes.io~empty-dir"

// EmptyDir sets up an emptyDir: a directory, a tmpfs or a hugetlbfs.
type EmptyDir struct {
	Medium corev1.StorageMedium `json:"medium"` // "", Memory, HugePages or HugePages-<size>
	// SizeBytes limits the size of a tmpfs; 0 means the kernel's default. The sizeLimit of a
	// directory is not enforced by the volume: as in the kubelet, a pod that exceeds it is evicted.
	SizeBytes int64  `json:"sizeBytes,omitempty"`
	PageSize  string `json:"pageSize,omitempty"` // page size of a hugetlbfs, such as 2Mi
	// a directory in which the file "ready" marks the volume as complete
	MetaDir string `json:"metaDir"`
}

func planEmptyDir(in Input, spec *corev1.Volume) (Volume, problem.List) {
	dir := &EmptyDir{MetaDir: in.Layout.Pod(in.ID.UID).PluginData(emptyDirPlugin, spec.Name)}
	var limit *resource.Quantity
	if e := spec.EmptyDir; e != nil {
		dir.Medium, limit = e.Medium, e.SizeLimit
	}
	switch {
	case dir.Medium == corev1.StorageMediumDefault:
	case dir.Medium == corev1.StorageMediumMemory:
		dir.SizeBytes = tmpfsSize(in.MemoryAllocatable, in.MemoryLimit, limit)
	case v1helper.IsHugePageMedium(dir.Medium):
		size, err := pageSize(in.Pod, dir.Medium)
		if err != nil {
			return Volume{}, problem.List{{Reason: "FailedMount", Message: err.Error(),
				Hint: "request hugepages of one size in a container's resources"}}
		}
		dir.PageSize = size
	default:
		return Volume{}, problem.List{{Reason: "FailedMount", Message: fmt.Sprintf("unknown storage medium %q", dir.Medium),
			Hint: "remove it, or use Memory, HugePages or HugePages-<size>"}}
	}
	v := Volume{Plugin: emptyDirPlugin, HostPath: in.Layout.Pod(in.ID.UID).Volume(emptyDirPlugin, spec.Name),
		Setup: Setup{Kind: SetupEmptyDir, EmptyDir: dir}}
	if sc := in.Pod.Spec.SecurityContext; sc != nil {
		v.FSGroup = sc.FSGroup
		// An emptyDir is new, so podrun always changes the ownership of all its files. Like the
		// kubelet, and as the API documents, podrun ignores fsGroupChangePolicy for an emptyDir.
	}
	return v, nil
}

// tmpfsSize returns the lowest limit that is set, in bytes (the kubelet's
// calculateEmptyDirMemorySize).
func tmpfsSize(allocatable, podLimit int64, sizeLimit *resource.Quantity) int64 {
	size := allocatable
	caps := []int64{podLimit}
	if sizeLimit != nil {
		caps = append(caps, sizeLimit.Value())
	}
	for _, c := range caps {
		if c > 0 && (size == 0 || c < size) {
			size = c
		}
	}
	return size
}

// pageSize returns the huge page size for a medium: the size in the medium's name or, if the name contains no size,
// the only size that the pod requests.
func pageSize(pod *corev1.Pod, medium corev1.StorageMedium) (string, error) {
	sizes := requestedPageSizes(pod)
	if medium != corev1.StorageMediumHugePages {
		want, err := v1helper.HugePageSizeFromMedium(medium)
		if err != nil {
			return "", err
		}
		for _, have := range sizes {
			if have.Cmp(want) == 0 {
				return have.String(), nil
			}
		}
		return "", fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
	}
	if len(sizes) == 0 {
		return "", fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
	}
	for _, other := range sizes[1:] {
		if other.Cmp(sizes[0]) != 0 {
			return "", fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
		}
	}
	return sizes[0].String(), nil
}

// requestedPageSizes returns the huge page sizes in the requests of the pod and its containers.
// They have no order, and may contain duplicates.
func requestedPageSizes(pod *corev1.Pod) []resource.Quantity {
	var lists []corev1.ResourceList
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	for _, cs := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range cs {
			// The API's defaulting copies limits to requests, but the plan's pod may not have its
			// defaults.
			lists = append(lists, cs[i].Resources.Requests, cs[i].Resources.Limits)
		}
	}
	var sizes []resource.Quantity
	for _, list := range lists {
		for name := range list {
			if size, err := v1helper.HugePageSizeFromResourceName(name); err == nil {
				sizes = append(sizes, size)
			}
		}
	}
	return sizes
}
