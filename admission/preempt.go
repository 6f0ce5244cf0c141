package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubelettypes "k8s.io/kubernetes/pkg/kubelet/types"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
)

// preempt admits a critical pod whose only problem is a lack of resources. It selects pods to
// preempt (as in the kubelet's pkg/kubelet/preemption). If preemption cannot free enough
// resources, preempt replaces the resource problems with the kubelet's preemption error.
func (q question) preempt(v *Verdict) {
	if !critical(q.pod) || !q.settings.Preempt || q.runs() {
		return
	}
	shortages, _ := findShortages(q)
	of := func(p problem.Problem) bool { return strings.HasPrefix(p.Reason, reasonOutOf) }
	if len(shortages) == 0 || slices.ContainsFunc(v.Problems.Errors(), func(p problem.Problem) bool { return !of(p) }) {
		return
	}
	var wanted needs
	for _, s := range shortages {
		wanted = append(wanted, need{s.name, s.missing()})
	}
	victims, ok := q.victims(wanted)
	v.Problems = slices.DeleteFunc(v.Problems, of)
	if ok {
		v.Preempts = victims
		return
	}
	left := wanted.without(q.preemptable()...)
	v.Problems = append(v.Problems, problem.Problem{
		Field: "spec", Reason: "UnexpectedAdmissionError",
		Message: "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: " +
			"no set of running pods found to reclaim resources: " + left.String(),
		Hint: shortages[0].hint,
	})
}

// preemptable returns the pods that this critical pod may preempt. These are podrun's pods that
// are not critical or have a lower priority. Pods of the same command are excluded.
func (q question) preemptable() []host.Pod {
	var out []host.Pod
	for _, p := range q.others {
		if p.Managed && occupies(p) && (!kubelettypes.IsCriticalPodBasedOnPriority(p.Priority) || *q.pod.Spec.Priority > p.Priority) {
			out = append(out, p)
		}
	}
	return out
}

// victims selects the pods to preempt. It selects as few pods as possible from the higher QoS
// classes. It begins with Guaranteed. For each class, it computes the amount that would still be
// missing if all pods of the lower classes were preempted. It selects pods of the class only for
// this amount.
func (q question) victims(wanted needs) (chosen []host.Pod, ok bool) {
	classes := []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}
	byClass := map[corev1.PodQOSClass][]host.Pod{}
	for _, p := range q.preemptable() {
		byClass[p.QOSClass] = append(byClass[p.QOSClass], p)
	}
	for i, class := range classes {
		rest := wanted.without(chosen...)
		for _, lower := range classes[i+1:] {
			rest = rest.without(byClass[lower]...)
		}
		more, ok := rest.closest(byClass[class])
		if !ok {
			return nil, false
		}
		// The pods of the lowest class are stopped first.
		chosen = append(more, chosen...)
	}
	return chosen, true
}

// need is an amount of a resource to free. Its unit is that of the function amount.
type need struct {
	name corev1.ResourceName
	n    int64
}

type needs []need

// without returns the needs that remain if these pods are stopped.
func (all needs) without(pods ...host.Pod) needs {
	var out needs
	for _, want := range all {
		for _, p := range pods {
			want.n -= requestOf(p, want.name)
		}
		if want.n > 0 {
			out = append(out, want)
		}
	}
	return out
}

// closest selects pods until all needs are met. Each time, it selects the pod that leaves the
// smallest remaining need. Among equal pods, it selects the one with the smallest requests.
func (all needs) closest(pods []host.Pod) (chosen []host.Pod, ok bool) {
	pods = slices.Clone(pods)
	for len(all) > 0 {
		if len(pods) == 0 {
			return nil, false
		}
		best := slices.MinFunc(pods, func(a, b host.Pod) int {
			return cmp.Or(cmp.Compare(all.distance(a), all.distance(b)),
				cmp.Compare(requestOf(a, corev1.ResourceMemory), requestOf(b, corev1.ResourceMemory)),
				cmp.Compare(requestOf(a, corev1.ResourceCPU), requestOf(b, corev1.ResourceCPU)))
		})
		chosen, all = append(chosen, best), all.without(best)
		pods = slices.DeleteFunc(pods, func(p host.Pod) bool { return p.UID == best.UID })
	}
	return chosen, true
}

// distance measures how much of the needs would remain if a pod were stopped. It is the sum of
// the squares of the remaining fractions, so large and small resources have the same weight.
func (all needs) distance(p host.Pod) float64 {
	sum := 0.0
	for _, want := range all {
		if left := float64(want.n - requestOf(p, want.name)); left > 0 {
			sum += left / float64(want.n) * left / float64(want.n)
		}
	}
	return sum
}

func requestOf(p host.Pod, name corev1.ResourceName) int64 {
	if name == corev1.ResourcePods {
		return 1
	}
	return amount(name, p.Requests)
}

// String formats the needs like the kubelet.
func (all needs) String() string {
	var b strings.Builder
	for _, want := range all {
		fmt.Fprintf(&b, "(res: %v, q: %d), ", want.name, want.n)
	}
	return "[" + b.String() + "]"
}
