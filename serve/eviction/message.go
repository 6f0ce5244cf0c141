package eviction

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
)

// Reason is the reason in an evicted pod's status and in its event.
const Reason = "Evicted"

// ReasonThresholdMet is the reason of the node event for an attempt to reclaim a resource.
const ReasonThresholdMet = "EvictionThresholdMet"

// Message returns the kubelet's message for an evicted pod. It names the resource of which the node
// was short, and the containers that use more of this resource than they request.
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

// shown returns an amount of a signal's resource in the format of the kubelet's messages.
func shown(s Signal, n int64) *apiresource.Quantity {
	if r := s.Resource(); r == inodes || r == pids {
		return apiresource.NewQuantity(n, apiresource.DecimalSI)
	}
	return bytes(n)
}
