package cmd

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// podSummary is a pod in a few words, by kubectl's rules
// (pkg/printers/internalversion/printers.go).
type podSummary struct {
	ready, total int // app containers and sidecars
	status       string
	restarts     int
	restarted    time.Time // the end of the last attempt that was followed by a restart
}

func (s *podSummary) addRestarts(c *corev1.ContainerStatus) {
	s.restarts += int(c.RestartCount)
	if last := c.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(s.restarted) {
		s.restarted = last.FinishedAt.Time
	}
}

// summarize says how a pod is: what its first unfinished init container does,
// or else what its app containers do, or else its phase.
func summarize(pod *corev1.Pod) podSummary {
	s := podSummary{status: string(pod.Status.Phase), total: len(pod.Spec.Containers)}
	if pod.Status.Reason != "" {
		s.status = pod.Status.Reason
	}
	for i := range pod.Spec.InitContainers {
		if podutil.IsRestartableInitContainer(&pod.Spec.InitContainers[i]) {
			s.total++
		}
	}
	sidecars, initializing := s.inits(pod)
	if !initializing || hasCondition(pod, corev1.PodInitialized) {
		s.apps(pod, sidecars)
	}
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.Status.Reason == reasonDeleted:
		s.status = reasonDeleted
	case pod.DeletionTimestamp != nil && !ended:
		s.status = "Terminating"
	}
	return s
}

// inits takes in the init containers, up to and including the first that is not
// done, and reports whether there is one. It also returns the restarts of the
// sidecars alone, of those it came to, as kubectl counts them.
func (s *podSummary) inits(pod *corev1.Pod) (sidecars podSummary, initializing bool) {
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		s.addRestarts(c)
		sidecar := sidecarOf(pod, c.Name)
		if sidecar {
			sidecars.addRestarts(c)
		}
		if end := c.State.Terminated; end != nil && end.ExitCode == 0 {
			continue
		}
		if sidecar && c.Started != nil && *c.Started {
			if c.Ready {
				s.ready++
			}
			continue
		}
		switch why := c.State.Waiting; {
		case c.State.Terminated != nil:
			s.status = "Init:" + endWord(c.State.Terminated)
		case why != nil && why.Reason != "" && why.Reason != "PodInitializing":
			s.status = "Init:" + why.Reason
		default:
			s.status = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		return sidecars, true
	}
	return sidecars, false
}

// apps takes in the app containers. The first in the list has the last word,
// and init containers' restarts no longer count, sidecars' excepted.
func (s *podSummary) apps(pod *corev1.Pod, sidecars podSummary) {
	s.restarts, s.restarted = sidecars.restarts, sidecars.restarted
	running, failure := false, ""
	for _, c := range slices.Backward(pod.Status.ContainerStatuses) {
		s.addRestarts(&c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.status = endWord(c.State.Terminated)
			if c.State.Terminated.ExitCode != 0 {
				failure = s.status
			}
		case c.State.Running != nil && c.Ready:
			running = true
			s.ready++
		}
	}
	if s.status != "Completed" {
		return
	}
	switch { // one container has completed; that is not yet the pod's state
	case running && hasCondition(pod, corev1.PodReady):
		s.status = "Running"
	case failure != "":
		s.status = failure
	case running:
		s.status = "NotReady"
	}
}

// endWord says how a container ended: the runtime's word, or the signal or
// code where it has none.
func endWord(end *corev1.ContainerStateTerminated) string {
	switch {
	case end.Reason != "":
		return end.Reason
	case end.Signal != 0:
		return fmt.Sprintf("Signal:%d", end.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", end.ExitCode)
}

func sidecarOf(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name && podutil.IsRestartableInitContainer(&c) })
}

func hasCondition(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}
