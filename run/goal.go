package run

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Goal is the state of a pod until which a command works on it.
type Goal string

// The goals of --wait.
const (
	GoalStarted   Goal = "started"   // every container was started and every postStart hook has finished
	GoalReady     Goal = "ready"     // and its condition Ready is true
	GoalCompleted Goal = "completed" // every app container has ended for good
)

// readyGoal tells whether a pod is ready.
func readyGoal(status corev1.PodStatus) (done bool, waiting string) {
	for _, c := range status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, "the pod is not ready: " + c.Message
		}
	}
	return false, "the pod is not ready"
}

// startedGoal tells whether the pod is started: its init containers are done,
// every app container was started in this sandbox, and every postStart hook has
// finished. Mine are the containers that this sync started: one of those that
// has ended by now was started all the same, while one that had ended before
// is to be restarted first, if the pod's policy does that. Waiting says what is
// missing.
func startedGoal(pod *corev1.Pod, obs *Observed, mine map[string]bool) (done bool, waiting string) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		have := obs.Container(c.Name)
		switch {
		case IsSidecar(c) && (have == nil || have.State != Running):
			return false, fmt.Sprintf("sidecar %s is not running", c.Name)
		case IsSidecar(c) && hasPostStart(c) && obs.Hooks[have.ID] != HookDone:
			return false, fmt.Sprintf("the postStart hook of sidecar %s has not finished", c.Name)
		case !IsSidecar(c) && !anyAppContainer(pod, obs) && (have == nil || have.State != Exited || have.ExitCode != 0):
			return false, fmt.Sprintf("init container %s has not finished", c.Name)
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		have := obs.Container(c.Name)
		switch {
		case have == nil && hasEnded(pod, c, obs.Newest(c.Name)):
		case have == nil || have.State == Created || have.State == Unknown:
			return false, fmt.Sprintf("container %s is not started", c.Name)
		case have.State == Exited && !mine[have.ID] && !hasEnded(pod, c, have):
			return false, fmt.Sprintf("container %s is to be restarted", c.Name)
		case have.State == Running && hasPostStart(c) && obs.Hooks[have.ID] != HookDone:
			return false, fmt.Sprintf("the postStart hook of container %s has not finished", c.Name)
		}
	}
	return true, ""
}
