package prepare

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
)

// Resizes reports whether an in-place resize (KEP-1287), possibly together with an update, can
// change the existing pod into pod.
func Resizes(here, pod *corev1.Pod) bool {
	return manifest.InPlace(here, pod) && lifecycle.Resizes(here, pod)
}

// resizeProblems refuses, as the kubelet does, an in-place resize that would change a container's swap
// limit (disallowResizeForSwappableContainers). It also refuses the resize of a pod without cgroups.
func (t Target) resizeProblems(s nodeconfig.Settings, cgroups host.Cgroup) problem.List {
	if t.Change == ChangeUpdate && cgroups.Unavailable != "" && lifecycle.Resizes(t.Was.Pod, t.Plan.Pod) {
		return problem.List{{Field: "spec", Reason: corev1.PodReasonInfeasible, Message: "in-place resize is not available: " + cgroups.Unavailable,
			Hint: "use 'podrun apply --force' to restart the pod"}}
	}
	if t.Change != ChangeUpdate || s.SwapBehavior != "LimitedSwap" {
		return nil
	}
	var out problem.List
	after := lifecycle.SpecContainers(t.Plan.Pod)
	for i, was := range lifecycle.SpecContainers(t.Was.Pod) {
		before, now := was.Container.Resources.Requests.Memory(), after[i].Container.Resources.Requests.Memory()
		if before.Cmp(*now) == 0 || lifecycle.RestartsToResize(was.Container, corev1.ResourceMemory) {
			continue
		}
		out = append(out, problem.Problem{Field: after[i].Field + ".resources.requests.memory", Reason: corev1.PodReasonInfeasible,
			Message: "In-place resize of containers with swap is not supported.",
			Hint:    fmt.Sprintf("set resizePolicy of memory to %s, or use 'podrun apply --force' to restart the pod", corev1.RestartContainer)})
	}
	return out
}
