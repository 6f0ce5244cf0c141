package eviction

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/resource"
)

// OverLimit returns the kubelet's eviction message for the local storage limit that a pod exceeds.
// It returns "" if the pod exceeds none. It first checks the emptyDirs, then the pod as a whole,
// then its containers. The containers' layers do not count if images are on a separate disk. The
// result signal is the name of the limit in the kubelet's metric of evictions.
func OverLimit(pod *corev1.Pod, u *Usage, dedicatedImages bool) (message, signal string) {
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		if u.Prevented[v.Name] {
			return fmt.Sprintf("Usage of EmptyDir volume %q may exceed the limit %q: %s. ", v.Name, v.EmptyDir.SizeLimit.String(), preventedText), "emptydirfs.limit"
		}
		if used, ok := u.Volumes[v.Name]; ok && v.EmptyDir.SizeLimit.CmpInt64(used.Bytes) < 0 {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String()), "emptydirfs.limit"
		}
	}
	limit, ok := resource.PodLimits(pod)[corev1.ResourceEphemeralStorage]
	if ok && len(u.Prevented) > 0 {
		return fmt.Sprintf("Pod ephemeral local storage usage may exceed the total limit of containers %s: %s. ", limit.String(), preventedText), "ephemeralpodfs.limit"
	}
	if ok && limit.CmpInt64(u.total().Bytes) < 0 {
		return fmt.Sprintf("Pod ephemeral local storage usage exceeds the total limit of containers %s. ", limit.String()), "ephemeralpodfs.limit"
	}
	for _, c := range pod.Spec.Containers {
		limit := c.Resources.Limits.StorageEphemeral()
		use, ok := u.Containers[c.Name]
		used := use.Logs.Bytes
		if !dedicatedImages {
			used += use.Layer.Bytes
		}
		if ok && !limit.IsZero() && limit.CmpInt64(used) < 0 {
			return fmt.Sprintf("Container %s exceeded its local ephemeral storage limit %q. ", c.Name, limit.String()), "ephemeralcontainerfs.limit"
		}
	}
	return "", ""
}

// preventedText explains that a pod counts as exceeding its limits: otherwise, a container could use any
// amount of storage.
const preventedText = "its containers prevent the measurement by more than 4194304 names, or by deeply nested directories that move"

// total returns a pod's usage of local storage on all disks.
func (u *Usage) total() Disk {
	out := u.Files
	for _, c := range u.Containers {
		out = out.Plus(c.Layer).Plus(c.Logs)
	}
	for _, v := range u.Volumes {
		out = out.Plus(v)
	}
	return out
}

// Limited reports whether a pod has local storage limits, so that podrun must measure its
// usage.
func Limited(pod *corev1.Pod) bool {
	limits := resource.PodLimits(pod)
	if _, ok := limits[corev1.ResourceEphemeralStorage]; ok {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return OnDisk(v) && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() > 0
	}) || slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return !c.Resources.Limits.StorageEphemeral().IsZero() })
}

// OnDisk reports whether an emptyDir is a directory on disk. The kernel enforces the limit of an emptyDir in memory.
func OnDisk(v corev1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
}
