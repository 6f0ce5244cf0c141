package admission

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"
)

// evictionSignals maps each eviction signal to a resource. The signal's hard threshold reduces the
// allocatable amount of this resource, as in the kubelet (pkg/kubelet/cm,
// hardEvictionReservation).
var evictionSignals = map[string]corev1.ResourceName{
	"memory.available": corev1.ResourceMemory,
	"nodefs.available": corev1.ResourceEphemeralStorage,
}

// checkResources refuses a pod whose requests exceed this host's free resources. The free amount is
// the allocatable amount minus the requests of podrun's live pods. podrun does not know the
// requests of other programs' pods.
func checkResources(q question) problem.List {
	shortages, out := findShortages(q)
	for _, s := range shortages {
		out = append(out, s.problem())
	}
	return out
}

// shortage describes a resource that is not sufficient for the requests of a pod. The unit is
// milli-CPUs for CPU. For other resources, it is bytes or a count.
type shortage struct {
	name              corev1.ResourceName
	want, used, total int64
	hint              string
}

// missing returns the amount that must become free.
func (s shortage) missing() int64 { return s.used + s.want - s.total }

// problem returns the shortage with the kubelet's message.
func (s shortage) problem() problem.Problem {
	return problem.Problem{
		Field: "spec", Reason: reasonOutOf + string(s.name), Hint: s.hint,
		Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", s.name, s.want, s.used, s.total),
	}
}

const reasonOutOf = "OutOf"

// findShortages returns the resources that are insufficient for the pod. It also returns the
// problems in the settings that determine the allocatable resources.
func findShortages(q question) ([]shortage, problem.List) {
	allocatable, bad := Allocatable(q.facts, q.settings)
	used := corev1.ResourceList{}
	pods := int64(0)
	for _, p := range q.countedPods() {
		if !occupies(p) {
			continue
		}
		pods++
		for name, quantity := range p.Requests {
			sum := used[name]
			sum.Add(quantity)
			used[name] = sum
		}
	}
	var out []shortage
	if limit := allocatable.Pods().Value(); pods+1 > limit {
		out = append(out, shortage{corev1.ResourcePods, 1, pods, limit, "delete a pod, or increase --max-pods"})
	}
	requests := resource.PodRequests(q.pod)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		want, have, total := amount(name, requests), amount(name, used), amount(name, allocatable)
		if want == 0 || have+want <= total {
			continue
		}
		_, known := allocatable[name]
		out = append(out, shortage{name, want, have, total, shortHint(name, requests, used, allocatable, known)})
	}
	return out, bad
}

// shortHint returns a hint that describes the shortage with human-readable quantities.
func shortHint(name corev1.ResourceName, requests, used, allocatable corev1.ResourceList, known bool) string {
	if !known {
		return fmt.Sprintf("this host has no %s, because podrun does not support device plugins: add a device with --device %s=CDI-ID", name, name)
	}
	want, free := requests[name], allocatable[name]
	if free.Sub(used[name]); free.Sign() < 0 {
		free = apiresource.Quantity{}
	}
	return fmt.Sprintf("the pod requests %s of %s, but only %s is free: lower its requests, or delete a pod", want.String(), name, free.String())
}

// amount returns a quantity in the unit of the messages: CPU in milli-CPUs, and all other resources as they are.
func amount(name corev1.ResourceName, list corev1.ResourceList) int64 {
	q := list[name]
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}
