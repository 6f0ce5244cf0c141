package schedule

import (
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

// firstPendingIndex returns the lowest index without a completion.
func (d *jobDecision) firstPendingIndex() int32 {
	done := map[int32]bool{}
	for _, i := range d.Record.Indexes {
		done[i] = true
	}
	for i := int32(0); ; i++ {
		if !done[i] {
			return i
		}
	}
}

// noteIndex records that the pod's completion index has succeeded.
func (d *jobDecision) noteIndex(p *store.JobPod) {
	if p.Index == nil || slices.Contains(d.Record.Indexes, *p.Index) {
		return
	}
	d.Record.Indexes = append(d.Record.Indexes, *p.Index)
	slices.Sort(d.Record.Indexes)
	d.status.CompletedIndexes = intervals(d.Record.Indexes)
}

// intervals returns sorted numbers in the API's format: 0-2,4.
func intervals(sorted []int32) string {
	var out []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		text := strconv.Itoa(int(sorted[i]))
		if j > i {
			separator := "-"
			if j == i+1 {
				separator = ","
			}
			text += separator + strconv.Itoa(int(sorted[j]))
		}
		out, i = append(out, text), j+1
	}
	return strings.Join(out, ",")
}
