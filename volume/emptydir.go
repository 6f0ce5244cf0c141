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
	// SizeBytes caps a tmpfs; 0 is the kernel's cap. A directory's sizeLimit is
	// not enforced when it is made: the kubelet evicts for it.
	SizeBytes int64  `json:"sizeBytes,omitempty"`
	PageSize  string `json:"pageSize,omitempty"` // of a hugetlbfs: 2Mi
	MetaDir   string `json:"metaDir"`            // holds the file "ready" once the volume is made
}

func planEmptyDir(in Input, spec *corev1.Volume) (Volume, problem.List) {
	dir := &EmptyDir{MetaDir: in.Layout.Plugins(in.ID.UID) + "/" + emptyDirPlugin + "/" + spec.Name}
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
	v := Volume{Plugin: emptyDirPlugin, HostPath: in.Layout.Volume(in.ID.UID, emptyDirPlugin, spec.Name),
		Setup: Setup{Kind: SetupEmptyDir, EmptyDir: dir}}
	if sc := in.Pod.Spec.SecurityContext; sc != nil {
		v.FSGroup = sc.FSGroup
		// An emptyDir is always changed as a whole: it is new. The kubelet ignores
		// fsGroupChangePolicy here, as the API documents.
	}
	return v, nil
}

// tmpfsSize is the smallest of the caps that are set, in bytes
// (the kubelet's calculateEmptyDirMemorySize).
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

// pageSize finds the size of huge pages for a medium: the medium's own, or the
// only one that the pod requests.
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

// requestedPageSizes lists the sizes of huge pages in the pod's and its
// containers' requests, in no order, with repeats.
func requestedPageSizes(pod *corev1.Pod) []resource.Quantity {
	var lists []corev1.ResourceList
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	for _, cs := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range cs {
			// The API's defaulting makes requests of limits, but a plan may be made
			// of a pod that never saw it.
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
