// Package shutdown determines the order in which pods stop when the host shuts down, and how long
// each pod may take (KEP-2000, KEP-2712). It is pure: its inputs are the configured periods and the
// pods, and its output is a list of groups.
package shutdown

import (
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	kubelet "k8s.io/kubelet/config/v1beta1"
)

// The status reason and message of a pod that podrun stopped for a shutdown
// (pkg/kubelet/nodeshutdown).
const (
	Reason  = "Terminated"
	Message = "Pod was terminated in response to imminent node shutdown."
)

// Group is a set of pods that stop together.
type Group struct {
	Priority int32 // the lowest possible priority of its pods; the first group also contains pods with a lower priority
	// Period is the maximum time for which the next group waits for this one.
	Period time.Duration
	Pods   []Stop
}

// Stop is a pod to stop. Grace is the pod's own terminationGracePeriodSeconds, or the group's
// period if that is shorter.
type Stop struct {
	Pod   *corev1.Pod
	Grace time.Duration
}

// Plan returns the non-empty groups in the order in which they stop: the group with the lowest
// priority first. The periods must be sorted by priority. If there are no periods, Plan returns no
// groups. A pod belongs to the group with the highest priority that does not exceed the pod's
// priority. If there is no such group, the pod belongs to the first group.
func Plan(periods []kubelet.ShutdownGracePeriodByPodPriority, pods []*corev1.Pod) []Group {
	groups := make([]Group, len(periods))
	for i, p := range periods {
		groups[i] = Group{Priority: p.Priority, Period: time.Duration(p.ShutdownGracePeriodSeconds) * time.Second}
	}
	if len(groups) == 0 {
		return nil
	}
	for _, pod := range pods {
		above := sort.Search(len(groups), func(i int) bool { return groups[i].Priority > schedulingv1.PodPriority(pod) })
		g := &groups[max(0, above-1)]
		g.Pods = append(g.Pods, Stop{Pod: pod, Grace: grace(pod, g.Period)})
	}
	var out []Group
	for _, g := range groups {
		if len(g.Pods) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func grace(pod *corev1.Pod, period time.Duration) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil && *s <= int64(period/time.Second) {
		return time.Duration(*s) * time.Second
	}
	return period
}
