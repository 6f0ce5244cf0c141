package lifecycle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Unenforced lists the settings of a pod that only long-running supervision can enforce: they
// have no effect after `apply` returns.
func Unenforced(pod *corev1.Pod) []string {
	var out []string
	add := func(s string) { out = append(out, s) }
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		add("restartPolicy: " + string(pod.Spec.RestartPolicy))
	}
	if pod.Spec.ActiveDeadlineSeconds != nil {
		add("activeDeadlineSeconds")
	}
	for _, c := range SpecContainers(pod) {
		if c.Container.LivenessProbe != nil {
			add(fmt.Sprintf("the livenessProbe of container %s", c.Container.Name))
		}
		if c.Container.ReadinessProbe != nil {
			add(fmt.Sprintf("the readinessProbe of container %s", c.Container.Name))
		}
	}
	return out
}
