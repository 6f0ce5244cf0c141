package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

// transient matches the reasons for refusals that may end when another object changes: the pod
// stays pending, and podrun tries again, as a kubelet does.
var transient = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(CreateContainerConfigError|CreateContainerError|ErrImage|InvalidImageName|ImagePull|FailedMount|Unreadable|NotFound)`)
})

// failed processes a failed attempt to apply a pod.
func (c *Cluster) failed(pod *corev1.Pod, err error) {
	c.statuses.tried(pod)
	if c.hosted(pod.UID) || pod.DeletionTimestamp != nil {
		// The pod continues with its previous definition. Its worker reports a pending resize.
		return
	}
	c.refuse(pod, err)
}

// refuse sets the status of a pod that podrun could not apply, and reports an event.
func (c *Cluster) refuse(pod *corev1.Pod, err error) {
	e, known := errors.AsType[*problem.Error](err)
	p := firstProblem(e, err)
	permanent := known && (e.Kind == problem.Refused || e.Kind == problem.Manifest) && len(e.Problems.Errors()) > 0 && !transient().MatchString(p.Reason)
	about := event.Event{Type: event.Warning, Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID), Reason: p.Reason, Message: p.Message}
	status := corev1.PodStatus{Phase: corev1.PodFailed, Reason: p.Reason, Message: "Pod was rejected: " + p.Message}
	if !permanent {
		status = pendingStatus(pod, p)
		if container := containerOf(pod, p.Field); container != "" {
			about.Reason = event.FailedToCreate
			about.Message = "Error: " + p.Message
			about.FieldPath = fieldPath(pod, container)
		} else if about.Reason == "" || about.Reason == "NotFound" {
			about.Reason = event.FailedMountVolume
		}
	}
	c.statuses.refuse(pod, status, permanent, about, c.events)
}

// firstProblem returns the problem that the status of a refused pod shows.
func firstProblem(e *problem.Error, err error) problem.Problem {
	if e != nil {
		if list := e.Problems.Errors(); len(list) > 0 {
			p := list[0]
			if p.Reason == "" {
				p.Reason = "UnexpectedAdmissionError"
			}
			p.Message = event.Cut(p.Message)
			return p
		}
	}
	return problem.Problem{Message: event.Cut(err.Error())}
}

// refuse records a refusal.
func (s *statuses) refuse(pod *corev1.Pod, status corev1.PodStatus, denied bool, about event.Event, to *events) {
	now := metav1.Now()
	status.StartTime = &now
	s.mu.Lock()
	k := s.of(pod.UID)
	fresh := k.event != about.Reason+about.Message
	if old := k.refusal; old != nil {
		status.StartTime = old.StartTime
	}
	changed := !equality.Semantic.DeepEqual(k.refusal, &status)
	k.refusal = &status
	k.denied = denied
	k.event = about.Reason + about.Message
	k.generation = pod.Generation
	s.mu.Unlock()
	if fresh {
		to.record(about)
	}
	if changed {
		s.check(pod.Namespace, pod.Name)
	}
}

// tried records that podrun has tried to apply the current generation of a pod.
func (s *statuses) tried(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(pod.UID).generation = pod.Generation
}

// waiting sets the status of a pod that podrun cannot apply yet, unless it is on this host.
func (s *statuses) waiting(pod *corev1.Pod, why string) {
	if s.cluster.hosted(pod.UID) {
		return
	}
	s.mu.Lock()
	k := s.of(pod.UID)
	first := k.refusal == nil && k.status == nil
	if first {
		status := pendingStatus(pod, problem.Problem{Message: why})
		now := metav1.Now()
		status.StartTime = &now
		k.refusal = &status
	}
	s.mu.Unlock()
	if first {
		s.check(pod.Namespace, pod.Name)
	}
}

// pendingStatus returns the status of a pod whose containers have not been created.
func pendingStatus(pod *corev1.Pod, p problem.Problem) corev1.PodStatus {
	s := corev1.PodStatus{Phase: corev1.PodPending}
	reason := "ContainerCreating"
	at := containerOf(pod, p.Field)
	for i := range pod.Spec.InitContainers {
		one := pod.Spec.InitContainers[i]
		s.InitContainerStatuses = append(s.InitContainerStatuses, waitingContainer(one, at, p, "PodInitializing"))
		reason = "PodInitializing"
	}
	for i := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, waitingContainer(pod.Spec.Containers[i], at, p, reason))
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse}
		switch {
		case kind == corev1.PodInitialized && len(pod.Spec.InitContainers) == 0:
			condition.Status = corev1.ConditionTrue
		case kind == corev1.PodInitialized:
			condition.Reason = "ContainersNotInitialized"
		case kind != corev1.PodReadyToStartContainers:
			condition.Reason = "ContainersNotReady"
		}
		s.Conditions = append(s.Conditions, condition)
	}
	return s
}

func waitingContainer(c corev1.Container, at string, p problem.Problem, reason string) corev1.ContainerStatus {
	waiting := &corev1.ContainerStateWaiting{Reason: reason}
	if c.Name == at {
		waiting.Reason = p.Reason
		waiting.Message = p.Message
		if waiting.Reason == "NotFound" {
			waiting.Reason = "CreateContainerConfigError"
		}
	}
	started := false
	return corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: &started, State: corev1.ContainerState{Waiting: waiting}}
}

// containerOf returns the name of the container to which a field belongs; "" for other fields.
func containerOf(pod *corev1.Pod, field string) string {
	for prefix, list := range map[string][]corev1.Container{"spec.containers": pod.Spec.Containers, "spec.initContainers": pod.Spec.InitContainers} {
		for i := range list {
			if strings.HasPrefix(field, fmt.Sprintf("%s[%d]", prefix, i)) {
				return list[i].Name
			}
		}
	}
	return ""
}

// fieldPath returns the path of a container in an event, in the kubelet's notation.
func fieldPath(pod *corev1.Pod, container string) string {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			return "spec.initContainers{" + container + "}"
		}
	}
	return "spec.containers{" + container + "}"
}

// lostStatus returns the final status of a pod that no longer exists on this host and whose
// containers' results are unknown. It is the kubelet's status for such a pod (pkg/kubelet/status).
func lostStatus(pod *corev1.Pod) corev1.PodStatus {
	s := *pod.Status.DeepCopy()
	for _, list := range [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].State.Terminated != nil {
				continue
			}
			list[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137,
				Message: "The container could not be located when the pod was terminated"}}
			list[i].Ready = false
		}
	}
	s.Phase = corev1.PodFailed
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status = corev1.ConditionFalse
		}
	}
	return s
}
