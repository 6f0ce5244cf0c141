package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// State is what of earlier observations counts. The zero value is that of a process
// that has observed nothing. It is replaced, never changed.
type State struct {
	first map[Threshold]time.Time                // since when each threshold has been crossed
	met   []Threshold                            // those whose grace periods were over
	last  map[corev1.NodeConditionType]time.Time // when each condition was last observed
}

// Decision is what follows from an observation.
type Decision struct {
	// Conditions are those under which the node is, sorted: observed within the
	// transition period. Until has when each ends if it is not observed again.
	Conditions []corev1.NodeConditionType
	Until      map[corev1.NodeConditionType]time.Time
	// Met are the thresholds for which something is to be reclaimed now, the first of
	// them first; empty for none.
	Met []Threshold
}

// Next takes an observation in. A threshold that was met stays so until its minimum
// reclaim is available, too. Soft thresholds make a condition at once, but count only
// after their grace periods.
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
	// In the order of all, which is that of reclaiming.
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

// Resolved reports whether no threshold is crossed, minimum reclaims included: then no
// pod has to be evicted.
func Resolved(all []Threshold, o Observations) bool { return len(crossed(all, o, true)) == 0 }

// Reclaim selects the resources that are freed before pods are evicted.
type Reclaim struct{ Containers, Images bool }

// ReclaimFor returns what can be freed for a threshold: dead containers and unused images
// on its disk, nothing for memory and process IDs.
func ReclaimFor(s Signal, dedicatedImages bool) Reclaim {
	switch s {
	case ImageFSAvailable, ImageFSInodesFree:
		return Reclaim{true, true}
	case NodeFSAvailable, NodeFSInodesFree:
		return Reclaim{!dedicatedImages, !dedicatedImages}
	}
	return Reclaim{}
}

// The grace periods of the kubelet's evictions: Immediate is that of a hard threshold
// and of a local storage limit (immediateEvictionGracePeriodSeconds), and the shortest
// that the pod's containers get (pkg/kubelet/pod_workers.go).
const Immediate = time.Second

// Grace is how long an evicted pod's containers get to end: the pod's own period up to
// most seconds for a soft threshold.
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
