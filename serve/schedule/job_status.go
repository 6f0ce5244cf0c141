package schedule

import (
	"cmp"
	"fmt"
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

// matchPolicy applies the rules of a podFailurePolicy to a failed pod. message is not empty if the
// Job fails; counts is false if the failure does not count.
func matchPolicy(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) (message string, counts bool) {
	for i, rule := range policy.Rules {
		var matched string
		switch {
		case rule.OnExitCodes != nil:
			if c := matchExitCode(pod, rule.OnExitCodes); c != nil {
				matched = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d", c.Name, pod.Namespace, pod.Name, c.State.Terminated.ExitCode)
			}
		case len(rule.OnPodConditions) > 0:
			if c := matchCondition(pod, rule.OnPodConditions); c != nil {
				matched = fmt.Sprintf("Pod %s/%s has condition %s", pod.Namespace, pod.Name, c.Type)
			}
		}
		if matched == "" {
			continue
		}
		switch rule.Action {
		case batchv1.PodFailurePolicyActionIgnore:
			return "", false
		case batchv1.PodFailurePolicyActionFailJob:
			return fmt.Sprintf("%s matching %s rule at index %d", matched, rule.Action, i), true
		case batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex:
			return "", true
		}
	}
	return "", true
}

// matchExitCode returns the first container whose exit code matches a rule. App containers come
// first.
func matchExitCode(pod *corev1.Pod, rule *batchv1.PodFailurePolicyOnExitCodesRequirement) *corev1.ContainerStatus {
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		t := c.State.Terminated
		if t == nil || t.ExitCode == 0 || rule.ContainerName != nil && *rule.ContainerName != c.Name {
			continue
		}
		in := slices.Contains(rule.Values, t.ExitCode)
		if rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && in || rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn && !in {
			return &c
		}
	}
	return nil
}

func matchCondition(pod *corev1.Pod, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) *corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		for _, p := range patterns {
			if c.Type == p.Type && c.Status == p.Status {
				return &c
			}
		}
	}
	return nil
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
