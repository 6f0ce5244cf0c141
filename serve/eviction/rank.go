package eviction

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/podrun/podrun/internal/resource"
)

// Critical reports whether a pod is critical, so that podrun never evicts it (the kubelet's
// IsCriticalPod). podrun's pods are not critical by default, unlike the kubelet's static pods.
func Critical(pod *corev1.Pod) bool {
	return kubelettypes.IsCriticalPodBasedOnPriority(schedulingv1.PodPriority(pod))
}

// Rank sorts pods in the order of eviction for a signal. It omits critical pods. For memory and
// disk, pods that use more than they request come first. Pods are then ordered by priority, and
// then by the usage above the request. For process IDs, the order is by priority, and then by the
// number of processes.
func Rank(pods []Candidate, s Signal, dedicatedImages bool) []Candidate {
	out := slices.DeleteFunc(slices.Clone(pods), func(c Candidate) bool { return Critical(c.Pod) })
	slices.SortStableFunc(out, func(a, b Candidate) int {
		if a.Usage == nil || b.Usage == nil {
			return cmp.Or(first(a.Usage == nil, b.Usage == nil), byPriority(a, b))
		}
		used, requested := a.of(s, dedicatedImages)
		used2, requested2 := b.of(s, dedicatedImages)
		exceeds := first(used > requested, used2 > requested2)
		if s == PIDAvailable {
			exceeds = 0
		}
		if s.Resource() == inodes {
			// A pod cannot request inodes. Nevertheless, the kubelet subtracts the request for disk
			// space from the number of inodes (disk in pkg/kubelet/eviction/helpers.go).
			requested, requested2 = a.request(corev1.ResourceEphemeralStorage), b.request(corev1.ResourceEphemeralStorage)
		}
		return cmp.Or(exceeds, byPriority(a, b), cmp.Compare(used2-requested2, used-requested))
	})
	return out
}

func byPriority(a, b Candidate) int {
	return cmp.Compare(schedulingv1.PodPriority(a.Pod), schedulingv1.PodPriority(b.Pod))
}

// first compares two values so that true sorts before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// of returns the pod's usage of, and request for, the resource of a signal.
func (c Candidate) of(s Signal, dedicatedImages bool) (used, requested int64) {
	switch s.Resource() {
	case corev1.ResourceMemory:
		return c.Usage.Memory, c.request(corev1.ResourceMemory)
	case pids:
		return c.Usage.Processes, 0
	}
	disk := c.Usage.disk(s, dedicatedImages)
	if s.Resource() == inodes {
		return disk.Inodes, 0
	}
	return disk.Bytes, c.request(corev1.ResourceEphemeralStorage)
}

func (c Candidate) request(name corev1.ResourceName) int64 {
	requests := resource.PodRequests(c.Pod)
	q := requests[name]
	return q.Value()
}

// disk returns a pod's usage of the file system of a signal. If images are on a separate file
// system, that file system contains the layers, and the node's contains logs and volumes.
// Otherwise, the usage includes all of them. A pod whose containers prevent the measurement uses more than
// any other pod, and so does a pod whose first measurement is still in progress when the others have ended:
// its containers may have created many names to delay it.
func (u *Usage) disk(s Signal, dedicatedImages bool) Disk {
	images := s == ImageFSAvailable || s == ImageFSInodesFree
	var out Disk
	for _, c := range u.Containers {
		if images || !dedicatedImages {
			out = out.Plus(c.Layer)
		}
		if !images || !dedicatedImages {
			out = out.Plus(c.Logs)
		}
	}
	if !images || !dedicatedImages {
		if len(u.Prevented) > 0 || u.Unmeasured {
			return Disk{math.MaxInt64 / 2, math.MaxInt64 / 2}
		}
		for _, v := range u.Volumes {
			out = out.Plus(v)
		}
	}
	return out
}
