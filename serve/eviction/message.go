package eviction

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/internal/resource"
)

// Reason is that of an evicted pod's status and of its event.
const Reason = "Evicted"

// ReasonThresholdMet is that of the node's event when something is reclaimed.
const ReasonThresholdMet = "EvictionThresholdMet"

// Message is the kubelet's message for an evicted pod: the resource that the node was
// short of, and the containers that use more of it than they request.
func Message(c Candidate, met []Threshold, o Observations) string {
	short := met[0].Signal.Resource()
	text := fmt.Sprintf("The node was low on resource: %s. ", short)
	for _, t := range met {
		if seen, ok := o[t.Signal]; ok && t.Signal.Resource() == short {
			least := t.Value.of(seen.Capacity)
			text += fmt.Sprintf("Threshold quantity: %s, available: %s. ", &least, shown(t.Signal, seen.Available))
			break
		}
	}
	if c.Usage == nil {
		return text
	}
	const larger = "%s %s was using %s, request is %s, has larger consumption of %s. "
	if r := c.Pod.Spec.Resources; r != nil && short == corev1.ResourceMemory {
		if request, ok := r.Requests[short]; ok {
			text += fmt.Sprintf(larger, "Pod", c.Pod.Name, bytes(c.Usage.Memory), &request, short)
		}
	}
	for _, spec := range slices.Concat(c.Pod.Spec.Containers, c.Pod.Spec.InitContainers) {
		use, ok := c.Usage.Containers[spec.Name]
		used := use.Memory
		if short == corev1.ResourceEphemeralStorage {
			used = use.Layer.Bytes + use.Logs.Bytes
		}
		request := spec.Resources.Requests[short]
		if ok && (short == corev1.ResourceMemory || short == corev1.ResourceEphemeralStorage) && request.CmpInt64(used) < 0 {
			text += fmt.Sprintf(larger, "Container", spec.Name, bytes(used), &request, short)
		}
	}
	return text
}

func bytes(n int64) *apiresource.Quantity { return apiresource.NewQuantity(n, apiresource.BinarySI) }

// shown is an amount of a signal as the kubelet writes it.
func shown(s Signal, n int64) *apiresource.Quantity {
	if r := s.Resource(); r == inodes || r == pids {
		return apiresource.NewQuantity(n, apiresource.DecimalSI)
	}
	return bytes(n)
}

// OverLimit returns the limit of local storage for which a pod is evicted, with the
// kubelet's message; "" if it exceeds none. EmptyDirs are checked first, then the whole
// pod, then its containers, whose layers are not counted if images are on a separate
// disk. Signal is the kubelet's signal for the metric of evictions.
func OverLimit(pod *corev1.Pod, u *Usage, dedicatedImages bool) (message, signal string) {
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil || v.EmptyDir.SizeLimit.Sign() <= 0 {
			continue
		}
		if used, ok := u.Volumes[v.Name]; ok && v.EmptyDir.SizeLimit.CmpInt64(used.Bytes) < 0 {
			return fmt.Sprintf("Usage of EmptyDir volume %q exceeds the limit %q. ", v.Name, v.EmptyDir.SizeLimit.String()), "emptydirfs.limit"
		}
	}
	limits := resource.PodLimits(pod)
	if limit, ok := limits[corev1.ResourceEphemeralStorage]; ok && limit.CmpInt64(u.total().Bytes) < 0 {
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

// total is a pod's usage of local storage, on all disks.
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

// Limited reports whether a pod has limits of local storage, for which its usage has to
// be measured.
func Limited(pod *corev1.Pod) bool {
	limits := resource.PodLimits(pod)
	if _, ok := limits[corev1.ResourceEphemeralStorage]; ok {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return OnDisk(v) && v.EmptyDir.SizeLimit != nil && v.EmptyDir.SizeLimit.Sign() > 0
	}) || slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return !c.Resources.Limits.StorageEphemeral().IsZero() })
}

// OnDisk reports whether an emptyDir is a directory. One in memory has its limit from the
// kernel.
func OnDisk(v corev1.Volume) bool {
	return v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault
}
