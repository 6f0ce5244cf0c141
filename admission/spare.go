package admission

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/resource"
)

// checkSpare warns if a pod requests more than is actually free on the host. Other programs,
// whose requests podrun does not know, may use the resources. The kubelet does not check this.
func checkSpare(q question) problem.List {
	if q.runs() {
		return nil
	}
	requests := resource.PodRequests(q.pod)
	shortages, _ := findShortages(q) // checkResources refuses these
	var out problem.List
	for _, have := range []struct {
		name corev1.ResourceName
		free int64
	}{{corev1.ResourceMemory, q.facts.MemoryAvailable}, {corev1.ResourceEphemeralStorage, q.facts.NodeFS.AvailableBytes}} {
		want := requests[have.name]
		lacks := slices.ContainsFunc(shortages, func(s shortage) bool { return s.name == have.name })
		if have.free <= 0 || want.Value() <= have.free || lacks {
			continue
		}
		out = append(out, problem.Problem{
			Field: "spec", Reason: "LowOn" + string(have.name), Warning: true,
			Message: fmt.Sprintf("the pod requests %s of %s, but this host has only %s free now", want.String(), have.name,
				apiresource.NewQuantity(have.free>>20<<20, apiresource.BinarySI)),
			Hint: "other programs use the rest: stop some, or lower the pod's requests",
		})
	}
	return out
}
