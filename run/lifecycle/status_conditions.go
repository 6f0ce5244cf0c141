package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// The kubelet's reasons for conditions (pkg/kubelet/status/generate.go).
const (
	podCompleted             = "PodCompleted"
	podFailed                = "PodFailed"
	containersNotReady       = "ContainersNotReady"
	containersNotInitialized = "ContainersNotInitialized"
	readinessGatesNotReady   = "ReadinessGatesNotReady"
	unknownContainerStatuses = "UnknownContainerStatuses"
)

// ownConditions are the conditions that a kubelet sets. podrun keeps all others unchanged, because
// other components set them.
var ownConditions = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady,
	corev1.PodReadyToStartContainers, corev1.PodResizeInProgress, corev1.PodResizePending, corev1.AllContainersRestarting,
}

// conditions returns the pod's conditions in the kubelet's order.
func conditions(pod *corev1.Pod, s *corev1.PodStatus, phase corev1.PodPhase, in StatusInput) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range pod.Status.Conditions {
		if !slices.Contains(ownConditions, c.Type) {
			out = append(out, c)
		}
	}
	containersReady := containersReadyCondition(pod, s, phase)
	if in.Undefined || len(s.ContainerStatuses) == 0 {
		containersReady = condition(corev1.ContainersReady, false, unknownContainerStatuses, "")
	}
	own := []corev1.PodCondition{
		readyToStartCondition(pod, in.Observed),
		initializedCondition(pod, s, phase, in.Observed),
		readyCondition(pod, containersReady, out),
		containersReady,
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
	}
	if podutil.AllContainersCouldRestart(&pod.Spec) {
		own = append(own, restartingCondition(pod, phase, in.Observed))
	}
	own = append(own, resizeConditions(in.Observed)...)
	for _, c := range own {
		c.ObservedGeneration = pod.Generation
		c.LastTransitionTime = metaTime(transition(pod, s, c, in))
		out = append(out, c)
	}
	return append(out, disruption(pod, in.Observed.Kept)...)
}

// restartingCondition reports whether the exit of a container requires a restart of all containers (KEP-5532), which
// podrun has not done yet.
func restartingCondition(pod *corev1.Pod, phase corev1.PodPhase, obs *Observed) corev1.PodCondition {
	switch {
	case phase == corev1.PodSucceeded:
		return condition(corev1.AllContainersRestarting, false, podCompleted, "")
	case phase == corev1.PodFailed:
		return condition(corev1.AllContainersRestarting, false, podFailed, "")
	case requestsRestartAll(pod, obs) == nil:
		return condition(corev1.AllContainersRestarting, false, "", "")
	}
	return condition(corev1.AllContainersRestarting, true, "RestartAllContainersStarted", "container exited with restart policy rule")
}

// disruption returns the condition of a pod that podrun evicted or stopped because of the node.
func disruption(pod *corev1.Pod, kept Kept) []corev1.PodCondition {
	at := kept.disrupted()
	if at.IsZero() {
		return nil
	}
	c := condition(corev1.DisruptionTarget, true, corev1.PodReasonTerminationByKubelet, kept.Message)
	c.ObservedGeneration = pod.Generation
	c.LastTransitionTime = metaTime(at)
	return []corev1.PodCondition{c}
}

// resizeConditions returns the conditions for a pending or current in-place resize. They do not
// apply to a pod that has ended.
func resizeConditions(obs *Observed) (out []corev1.PodCondition) {
	if obs.Kept.Terminal() {
		return nil
	}
	if p := obs.Kept.ResizePending; p != nil {
		out = append(out, condition(corev1.PodResizePending, true, p.Reason, p.Message))
	}
	if r := obs.Resize; r != nil {
		reason := ""
		if r.Error != "" {
			reason = corev1.PodReasonError
		}
		out = append(out, condition(corev1.PodResizeInProgress, true, reason, r.Error))
	}
	return out
}

// readyToStartCondition reports whether the pod has a sandbox with a network, so that containers can
// start in it (KEP-3085).
func readyToStartCondition(pod *corev1.Pod, obs *Observed) corev1.PodCondition {
	missing, _, _ := needSandbox(pod, obs)
	return condition(corev1.PodReadyToStartContainers, !missing, "", "")
}

// initializedCondition reports whether the init containers have completed and the sidecars have started. It
// also returns true if an app container of the current sandbox is running or has exited, because app
// containers start last. So the condition remains true if a sidecar restarts later.
func initializedCondition(pod *corev1.Pod, s *corev1.PodStatus, phase corev1.PodPhase, obs *Observed) corev1.PodCondition {
	if phase == corev1.PodSucceeded {
		return condition(corev1.PodInitialized, true, podCompleted, "")
	}
	var incomplete []string
	for i := range s.InitContainerStatuses {
		st := &s.InitContainerStatuses[i]
		done := st.Ready
		if podutil.IsRestartableInitContainer(&pod.Spec.InitContainers[i]) {
			done = *st.Started
		}
		if !done {
			incomplete = append(incomplete, st.Name)
		}
	}
	was := obs.Kept.condition(corev1.PodInitialized)
	// A restart of all containers does not change the condition (KEP-5532).
	kept := was != nil && was.Status == corev1.ConditionTrue && podutil.AllContainersCouldRestart(&pod.Spec)
	if len(incomplete) == 0 || kept || anyAppRan(s, obs) {
		return condition(corev1.PodInitialized, true, "", "")
	}
	return condition(corev1.PodInitialized, false, containersNotInitialized, fmt.Sprintf("containers with incomplete status: %s", incomplete))
}

// anyAppRan reports whether an app container of the current sandbox is running or has exited. As in the
// kubelet, a container that waits to be restarted does not count.
func anyAppRan(s *corev1.PodStatus, obs *Observed) bool {
	return slices.ContainsFunc(s.ContainerStatuses, func(st corev1.ContainerStatus) bool {
		return st.State.Waiting == nil && obs.Container(st.Name) != nil
	})
}

// containersReadyCondition reports whether all app containers and sidecars are ready. The message lists
// sidecars first, then app containers, each in the spec's order.
func containersReadyCondition(pod *corev1.Pod, s *corev1.PodStatus, phase corev1.PodPhase) corev1.PodCondition {
	switch phase {
	case corev1.PodSucceeded:
		return condition(corev1.ContainersReady, false, podCompleted, "")
	case corev1.PodFailed:
		return condition(corev1.ContainersReady, false, podFailed, "")
	}
	var unready []string
	for i := range s.InitContainerStatuses {
		if st := &s.InitContainerStatuses[i]; podutil.IsRestartableInitContainer(&pod.Spec.InitContainers[i]) && !st.Ready {
			unready = append(unready, st.Name)
		}
	}
	for i := range pod.Spec.Containers {
		name := pod.Spec.Containers[i].Name
		if slices.ContainsFunc(s.ContainerStatuses, func(st corev1.ContainerStatus) bool { return st.Name == name && !st.Ready }) {
			unready = append(unready, name)
		}
	}
	if len(unready) == 0 {
		return condition(corev1.ContainersReady, true, "", "")
	}
	return condition(corev1.ContainersReady, false, containersNotReady, fmt.Sprintf("containers with unready status: %s", unready))
}

// readyCondition reports whether the pod is ready: its containers must be ready, and its readiness
// gates must be true. Without a cluster, no controller sets the condition of a gate, so a pod with
// readiness gates is ready only if its manifest contains their conditions.
func readyCondition(pod *corev1.Pod, containersReady corev1.PodCondition, others []corev1.PodCondition) corev1.PodCondition {
	if containersReady.Status != corev1.ConditionTrue {
		return condition(corev1.PodReady, false, containersReady.Reason, containersReady.Message)
	}
	var unready []string
	for _, gate := range pod.Spec.ReadinessGates {
		at := slices.IndexFunc(others, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case at < 0:
			unready = append(unready, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case others[at].Status != corev1.ConditionTrue:
			unready = append(unready, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", gate.ConditionType, others[at].Status))
		}
	}
	if len(unready) > 0 {
		return condition(corev1.PodReady, false, readinessGatesNotReady, strings.Join(unready, ", "))
	}
	return condition(corev1.PodReady, true, "", "")
}

// ApplyReadinessGates sets the condition Ready of a status according to the pod's readiness gates. The
// argument others contains the conditions that controllers of the cluster have set. If it contains a
// condition Ready with the same status, ApplyReadinessGates keeps the transition time of that condition.
func ApplyReadinessGates(pod *corev1.Pod, s *corev1.PodStatus, others []corev1.PodCondition, now time.Time) {
	if len(pod.Spec.ReadinessGates) == 0 {
		return
	}
	find := func(list []corev1.PodCondition, kind corev1.PodConditionType) int {
		return slices.IndexFunc(list, func(c corev1.PodCondition) bool { return c.Type == kind })
	}
	containers, ready := find(s.Conditions, corev1.ContainersReady), find(s.Conditions, corev1.PodReady)
	if containers < 0 || ready < 0 || s.Conditions[containers].Status != corev1.ConditionTrue {
		return
	}
	c := readyCondition(pod, s.Conditions[containers], others)
	c.LastTransitionTime = metav1.NewTime(now)
	if old := find(others, corev1.PodReady); old >= 0 && others[old].Status == c.Status && !others[old].LastTransitionTime.IsZero() {
		c.LastTransitionTime = others[old].LastTransitionTime
	}
	s.Conditions[ready] = c
}

func condition(kind corev1.PodConditionType, ok bool, reason, message string) corev1.PodCondition {
	status := corev1.ConditionFalse
	if ok {
		status = corev1.ConditionTrue
	}
	return corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message}
}

// transition returns the time of a condition's last transition. It takes the time from an earlier
// status or the owner's record. If neither contains the condition, transition derives the time from
// the runtime's timestamps, so that it is the same each time the pod is observed.
func transition(pod *corev1.Pod, s *corev1.PodStatus, c corev1.PodCondition, in StatusInput) time.Time {
	for _, old := range pod.Status.Conditions {
		if old.Type == c.Type && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			return old.LastTransitionTime.Time
		}
	}
	at := in.StartTime
	sandbox := in.Observed.Sandbox()
	yes := c.Status == corev1.ConditionTrue
	switch {
	case sandbox == nil:
	case c.Type == corev1.PodResizePending:
		at = in.Now
	case c.Type == corev1.PodResizeInProgress:
		at = in.Observed.Resize.Since
	case c.Type == corev1.PodReadyToStartContainers && yes:
		at = sandbox.CreatedAt
	case c.Type == corev1.PodInitialized && yes:
		at = latest(at, s.InitContainerStatuses, true)
	case c.Type == corev1.ContainersReady || c.Type == corev1.PodReady:
		at = latest(at, s.InitContainerStatuses, yes)
		at = latest(at, s.ContainerStatuses, yes)
	}
	if at.IsZero() {
		at = in.Now
	}
	return in.Observed.Kept.since(c, at, in.Now, hasProbes(pod))
}

// latest returns the time of the last exit of a container, or at if that is later. If starts is true,
// it considers the starts of containers as well.
func latest(at time.Time, statuses []corev1.ContainerStatus, starts bool) time.Time {
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	for i := range statuses {
		st := &statuses[i]
		if starts && st.State.Running != nil {
			later(st.State.Running.StartedAt.Time)
		}
		if end := ended(st); end != nil {
			later(end.FinishedAt.Time)
		}
	}
	return at
}
