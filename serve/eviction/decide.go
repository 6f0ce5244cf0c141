package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is the part of earlier observations that Next requires. The zero value means no
// observations. Next never modifies a State; it returns a new one.
type State struct {
	first map[Threshold]time.Time                // when each threshold was crossed
	met   []Threshold                            // thresholds whose grace periods have passed
	last  map[corev1.NodeConditionType]time.Time // when each condition was last observed
}

// Decision is the result of an observation.
type Decision struct {
	// Conditions are the node's current conditions, sorted: those that were observed within the
	// transition period. Until is the time at which each condition ends if it is not observed
	// again.
	Conditions []corev1.NodeConditionType
	Until      map[corev1.NodeConditionType]time.Time
	// Met has the thresholds whose resources must be reclaimed now, in this order. It is empty if
	// nothing must be reclaimed.
	Met []Threshold
}

// Next evaluates an observation. If a threshold was met, it remains met until the available
// amount exceeds it by its minimum reclaim. A soft threshold sets its condition immediately, but
// is met only after its grace period.
func Next(s State, all []Threshold, o Observations, transition time.Duration, now time.Time) (State, Decision) {
	active := crossed(all, o, false)
	for _, t := range crossed(s.met, o, true) {
		if !slices.Contains(active, t) && slices.Contains(all, t) {
			active = append(active, t)
		}
	}
	next := State{first: map[Threshold]time.Time{}, last: map[corev1.NodeConditionType]time.Time{}}
	for c, at := range s.last {
		if now.Sub(at) < transition {
			next.last[c] = at
		}
	}
	// Iterate over all in its order, which is the order of reclaiming.
	for _, t := range all {
		if !slices.Contains(active, t) {
			continue
		}
		first, seen := s.first[t]
		if !seen {
			first = now
		}
		next.first[t], next.last[t.Signal.Condition()] = first, now
		if now.Sub(first) >= t.Grace {
			next.met = append(next.met, t)
		}
	}
	d := Decision{Met: slices.Clone(next.met), Until: map[corev1.NodeConditionType]time.Time{}}
	for c, at := range next.last {
		d.Conditions = append(d.Conditions, c)
		d.Until[c] = at.Add(transition)
	}
	slices.Sort(d.Conditions)
	return next, d
}

// Resolved reports whether no threshold is crossed, even with the minimum reclaims added. If so,
// no pod has to be evicted.
func Resolved(all []Threshold, o Observations) bool { return len(crossed(all, o, true)) == 0 }

// Reclaim selects the resources that podrun frees before it evicts pods.
type Reclaim struct{ Containers, Images bool }

// ReclaimFor returns what can be freed for a threshold: dead containers and unused images on
// its disk. For memory and process IDs, it returns nothing.
func ReclaimFor(s Signal, dedicatedImages bool) Reclaim {
	switch s {
	case ImageFSAvailable, ImageFSInodesFree:
		return Reclaim{true, true}
	case NodeFSAvailable, NodeFSInodesFree:
		return Reclaim{!dedicatedImages, !dedicatedImages}
	}
	return Reclaim{}
}

// Immediate is the grace period of an eviction in the kubelet if a hard threshold or a local
// storage limit is the reason (immediateEvictionGracePeriodSeconds). It is also the minimum
// grace period of any container (pkg/kubelet/pod_workers.go).
const Immediate = time.Second

// Grace returns the grace period of an evicted pod's containers. If the threshold is soft, this
// is the pod's own period, limited to most seconds.
func Grace(pod *corev1.Pod, t Threshold, most int32) time.Duration {
	if t.Hard() {
		return Immediate
	}
	seconds := int64(most)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		seconds = min(seconds, *own)
	}
	return max(Immediate, time.Duration(seconds)*time.Second)
}
