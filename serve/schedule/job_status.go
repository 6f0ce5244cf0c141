package schedule

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/run/store"
)

// finishTime returns when a pod ended: when its last container ended or, if that is unknown, when
// the pod became unready. If pod is nil, it returns now.
func finishTime(pod *corev1.Pod, now time.Time) time.Time {
	if pod == nil {
		return now
	}
	sidecars := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		sidecars[c.Name] = c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	statuses := slices.Clone(pod.Status.ContainerStatuses)
	for _, c := range pod.Status.InitContainerStatuses {
		if sidecars[c.Name] {
			statuses = append(statuses, c)
		}
	}
	var last time.Time
	for _, c := range statuses {
		t := c.State.Terminated
		if t == nil || t.FinishedAt.IsZero() {
			last = time.Time{}
			break
		}
		if t.FinishedAt.After(last) {
			last = t.FinishedAt.Time
		}
	}
	if !last.IsZero() {
		return last
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return now
}

// indexed reports whether a Job is an Indexed Job (completionMode).
func indexed(j *batchv1.Job) bool {
	return j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion
}

// interval is a set of consecutive completion indexes.
type interval struct{ first, last int32 }

// completed returns the completed indexes of a Job, in ascending order. It is not a list of all indexes,
// because there may be millions.
func (d *jobDecision) completed() (out []interval) {
	for text := range strings.SplitSeq(d.status.CompletedIndexes, ",") {
		from, to, more := strings.Cut(text, "-")
		if !more {
			to = from
		}
		first, errFirst := strconv.ParseInt(from, 10, 32)
		last, errLast := strconv.ParseInt(to, 10, 32)
		if errFirst == nil && errLast == nil { // podrun wrote it
			out = append(out, interval{int32(first), int32(last)})
		}
	}
	return joined(out)
}

// joined joins sorted intervals between which no index is missing.
func joined(sorted []interval) (out []interval) {
	for _, i := range sorted {
		if n := len(out); n > 0 && i.first <= out[n-1].last+1 {
			out[n-1].last = max(out[n-1].last, i.last)
			continue
		}
		out = append(out, i)
	}
	return out
}

// firstPendingIndex returns the lowest index without a completion.
func (d *jobDecision) firstPendingIndex() int32 {
	if done := d.completed(); len(done) > 0 && done[0].first == 0 {
		return done[0].last + 1
	}
	return 0
}

// noteIndex records that the pod's completion index has succeeded.
func (d *jobDecision) noteIndex(p *store.JobPod) {
	if p.Index == nil {
		return
	}
	all := append(d.completed(), interval{*p.Index, *p.Index})
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	var out []string
	for _, i := range joined(all) {
		text := strconv.Itoa(int(i.first))
		if i.last > i.first {
			separator := "-"
			if i.last == i.first+1 {
				separator = "," // as the API writes two indexes
			}
			text += separator + strconv.Itoa(int(i.last))
		}
		out = append(out, text)
	}
	d.status.CompletedIndexes = strings.Join(out, ",")
}
