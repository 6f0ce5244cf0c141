package lifecycle

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Exits describes how the containers of a pod exited, for the error of a command whose goal was not
// reached: "container a exited with 3 (Error), 4 restarts, CrashLoopBackOff". It ignores init
// containers that succeeded, and returns "" if no other container has exited.
func Exits(status corev1.PodStatus) string {
	var out []string
	for i, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, c := range list {
			t := c.State.Terminated
			if t == nil {
				t = c.LastTerminationState.Terminated
			}
			if t == nil || i == 0 && t.ExitCode == 0 && c.State.Terminated != nil {
				continue
			}
			text := fmt.Sprintf("container %s exited with %d", c.Name, t.ExitCode)
			if t.Reason != "" {
				text += " (" + t.Reason + ")"
			}
			switch c.RestartCount {
			case 0:
			case 1:
				text += ", 1 restart"
			default:
				text += fmt.Sprintf(", %d restarts", c.RestartCount)
			}
			if w := c.State.Waiting; w != nil && w.Reason != "" {
				text += ", " + w.Reason
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

// ExitedFirst returns the name of an app container that has terminated while others have not: the
// first container that failed or, if none failed, the first terminated container in the order of
// the spec. It returns "" if there is none.
func ExitedFirst(pod *corev1.Pod, status corev1.PodStatus) string {
	ended, first, failed := 0, "", ""
	for _, e := range EndedContainers(pod, status) {
		if e.Kind != "app" {
			continue
		}
		ended++
		first = cmp.Or(first, e.Name)
		if e.ExitCode != 0 {
			failed = cmp.Or(failed, e.Name)
		}
	}
	if ended == len(pod.Spec.Containers) {
		return ""
	}
	return cmp.Or(failed, first)
}
