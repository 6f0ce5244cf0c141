package schedule

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

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
