package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is the part of earlier observations that Next requires. The zero value means no
// observations. Next never modifies a State; it returns a new one.
type State struct {
	first map[Threshold]time.Time                // time at which each threshold was crossed
	met   []Threshold                            // thresholds whose grace periods have passed
	last  map[corev1.NodeConditionType]time.Time // time at which each condition was last observed
}

// Decision is the result of an observation.
type Decision struct {
	// Conditions contains the node's current conditions, sorted. A condition is current if it was
	// observed within the transition period. Until is the time at which each condition ends if it
	// is not observed again.
	Conditions []corev1.NodeConditionType
	Until      map[corev1.NodeConditionType]time.Time
	// Met contains the thresholds whose resources podrun must reclaim now, in this order. It is
	// empty if podrun need not reclaim a resource.
	Met []Threshold
}

// Next evaluates an observation. A threshold that was met remains met until the available amount
// exceeds it by its minimum reclaim. A soft threshold sets its condition immediately, but is met
// only after its grace period.
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
	// The order of all is the order in which podrun reclaims resources.
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

// Resolved reports whether no threshold is crossed, even with the minimum reclaims added. If it
// returns true, podrun need not evict a pod.
func Resolved(all []Threshold, o Observations) bool { return len(crossed(all, o, true)) == 0 }

// Reclaim selects the resources that podrun frees before it evicts pods.
type Reclaim struct{ Containers, Images bool }

// ReclaimFor returns the resources that podrun can free for a signal: dead containers and unused
// images on the disk of the signal. For memory and process IDs, it returns none.
func ReclaimFor(s Signal, dedicatedImages bool) Reclaim {
	switch s {
	case ImageFSAvailable, ImageFSInodesFree:
		return Reclaim{true, true}
	case NodeFSAvailable, NodeFSInodesFree:
		return Reclaim{!dedicatedImages, !dedicatedImages}
	}
	return Reclaim{}
}

// Immediate is the kubelet's grace period for an eviction because of a hard threshold or a local
// storage limit (immediateEvictionGracePeriodSeconds). It is also the minimum grace period of any
// container (pkg/kubelet/pod_workers.go).
const Immediate = time.Second

// Grace returns the grace period of an evicted pod's containers. For a soft threshold, this is the
// pod's own grace period, limited to most seconds.
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
