package view

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/run/lifecycle"
)

// podSummary summarizes a pod by kubectl's rules
// (pkg/printers/internalversion/printers.go).
type podSummary struct {
	ready, total int // app containers and sidecars
	Status       string
	Restarts     int
	restarted    time.Time // the end of the last attempt before a restart
}

func (s *podSummary) addRestarts(c *corev1.ContainerStatus) {
	s.Restarts += int(c.RestartCount)
	if last := c.LastTerminationState.Terminated; last != nil && last.FinishedAt.After(s.restarted) {
		s.restarted = last.FinishedAt.Time
	}
}

// Summarize returns the state of the first unfinished init container. If all init containers
// have finished, it returns the state of the app containers, or else the pod's phase.
func Summarize(pod *corev1.Pod) podSummary {
	s := podSummary{Status: string(pod.Status.Phase), total: len(pod.Spec.Containers)}
	if pod.Status.Reason != "" {
		s.Status = pod.Status.Reason
	}
	for i := range pod.Spec.InitContainers {
		if podutil.IsRestartableInitContainer(&pod.Spec.InitContainers[i]) {
			s.total++
		}
	}
	sidecars, initializing := s.addInits(pod)
	if !initializing || hasCondition(pod, corev1.PodInitialized) {
		s.addApps(pod, sidecars)
	}
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case pod.Status.Reason == ReasonDeleted:
		s.Status = ReasonDeleted
	case pod.DeletionTimestamp != nil && !ended:
		s.Status = "Terminating"
	case pod.Status.Reason == lifecycle.ReasonStopped || pod.Status.Reason == lifecycle.ReasonStopping:
		s.Status = pod.Status.Reason
	}
	return s
}

// addInits adds the init containers up to and including the first unfinished one. Initializing
// is true if there is an unfinished one. Sidecars is the number of restarts of the sidecars
// among these containers, counted as kubectl does.
func (s *podSummary) addInits(pod *corev1.Pod) (sidecars podSummary, initializing bool) {
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
			s.Status = "Init:" + endReason(c.State.Terminated)
		case why != nil && why.Reason != "" && why.Reason != "PodInitializing":
			s.Status = "Init:" + why.Reason
		default:
			s.Status = fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
		return sidecars, true
	}
	return sidecars, false
}

// addApps adds the app containers. The first app container in the list that has a reason
// determines the status of the pod. Like kubectl, addApps drops the restarts of init containers
// that are not sidecars.
func (s *podSummary) addApps(pod *corev1.Pod, sidecars podSummary) {
	s.Restarts, s.restarted = sidecars.Restarts, sidecars.restarted
	running, failure := false, ""
	for _, c := range slices.Backward(pod.Status.ContainerStatuses) {
		s.addRestarts(&c)
		switch {
		case c.State.Waiting != nil && c.State.Waiting.Reason != "":
			s.Status = c.State.Waiting.Reason
		case c.State.Terminated != nil:
			s.Status = endReason(c.State.Terminated)
			if c.State.Terminated.ExitCode != 0 {
				failure = s.Status
			}
		case c.State.Running != nil && c.Ready:
			running = true
			s.ready++
		}
	}
	if s.Status != "Completed" {
		return
	}
	switch { // a container has completed, but the pod may not have
	case running && hasCondition(pod, corev1.PodReady):
		s.Status = "Running"
	case failure != "":
		s.Status = failure
	case running:
		s.Status = "NotReady"
	}
}

// endReason returns how a container ended: the runtime's reason. If there is none, it returns
// the signal or the exit code.
func endReason(end *corev1.ContainerStateTerminated) string {
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

// ReasonDeleted is the status of a deleted pod, which `get --watch` shows once.
const ReasonDeleted = "Deleted"
