package lifecycle

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/podrun/podrun/internal/event"
)

// The kubelet's reasons for a container that has not been created yet.
const (
	containerCreating = "ContainerCreating"
	podInitializing   = "PodInitializing"
)

// appStatuses returns the app containers' statuses, sorted by name.
func appStatuses(pod *corev1.Pod, in StatusInput) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		// If the current sandbox does not have the container, the status shows how it exited in an
		// older sandbox, because the container may never run again.
		out = append(out, statusOf(pod, c, in.Observed.Newest(c.Name), in))
	}
	slices.SortFunc(out, func(a, b corev1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// initStatuses returns the init containers' statuses, in the spec's order.
func initStatuses(pod *corev1.Pod, in StatusInput) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		have := in.Observed.Container(c.Name)
		if have == nil && !podutil.IsRestartableInitContainer(c) && AnyAppContainer(pod, in.Observed) {
			out = append(out, prunedInitStatus(pod, c, in))
			continue
		}
		if have != nil && in.Observed.createdAhead(pod, have) {
			// The kubelet would not have created the container yet.
			have = nil
		}
		s := statusOf(pod, c, have, in)
		if !podutil.IsRestartableInitContainer(c) {
			s.Ready = s.State.Terminated != nil && s.State.Terminated.ExitCode == 0
		}
		out = append(out, s)
	}
	return out
}

// ephemeralStatuses returns the ephemeral containers' statuses, sorted by name. They are never
// ready. Started is not set, because they have no probes (UpdatePodStatus in
// pkg/kubelet/prober).
func ephemeralStatuses(pod *corev1.Pod, in StatusInput) []corev1.ContainerStatus {
	var out []corev1.ContainerStatus
	for _, c := range SpecContainers(pod) {
		if !c.Ephemeral {
			continue
		}
		s := newStatus(pod, c.Container, in)
		have := in.Observed.Newest(c.Container.Name)
		if have != nil {
			setCurrent(&s, c.Container, have, in)
		} else {
			setWaiting(&s, pod, c.Container, nil, in)
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b corev1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// prunedInitStatus returns the status of an init container of which the runtime no longer has a
// record. An app container exists, so the init container must have succeeded (k/k#86531).
func prunedInitStatus(pod *corev1.Pod, c *corev1.Container, in StatusInput) corev1.ContainerStatus {
	s := newStatus(pod, c, in)
	started := false
	s.Started = &started
	s.Ready = true
	s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason:  "Completed",
		Message: "the runtime no longer has this container; podrun reports it as completed, because an app container was created after it",
	}}
	return s
}

// newStatus returns the status of a container that was never created.
func newStatus(pod *corev1.Pod, c *corev1.Container, in StatusInput) corev1.ContainerStatus {
	reason := containerCreating
	if len(pod.Spec.InitContainers) > 0 {
		reason = podInitializing
	}
	return corev1.ContainerStatus{
		Name:         c.Name,
		Image:        c.Image,
		State:        corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}},
		VolumeMounts: mountStatuses(c, in.RecursiveReadOnly),
	}
}

// restartingAll is the kubelet's reason for a container that it removes in order to restart all containers of the
// pod (KEP-5532), and the message.
const (
	restartingAll        = "RestartingAllContainers"
	restartingAllMessage = "The container is removed because RestartAllContainers in place"
)

// endedByRestart describes the last run of a container that ended with a restart of all containers. The kubelet
// removes such a run, whatever its exit code was.
func endedByRestart() *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{Reason: restartingAll, Message: restartingAllMessage, ExitCode: 137}
}

// lastTermination describes how the previous attempt of a container exited.
func lastTermination(last *Container, in StatusInput) *corev1.ContainerStateTerminated {
	if in.Observed.Restarted[last.ID] {
		return endedByRestart()
	}
	return terminated(last, in)
}

// statusOf returns the status of a container. The argument have is the current attempt, or nil if
// there is none.
func statusOf(pod *corev1.Pod, c *corev1.Container, have *Container, in StatusInput) corev1.ContainerStatus {
	s := newStatus(pod, c, in)
	if last := in.Observed.Newest(c.Name); last != nil && in.Observed.Restarted[last.ID] && !in.Over {
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: restartingAll, Message: restartingAllMessage}}
		s.RestartCount = int32(last.Restarts) + 1
		s.LastTerminationState.Terminated = endedByRestart()
	} else if have != nil {
		setCurrent(&s, c, have, in)
	} else if last != nil {
		// The container ran in an older sandbox, and will run again in the current one.
		s.RestartCount = int32(last.Restarts)
		s.LastTerminationState.Terminated = terminated(last, in)
	} else if n := in.Observed.LoggedRuns[c.Name]; n > 0 {
		s.RestartCount = int32(n - 1) // the runtime has lost the container
	}
	setWaiting(&s, pod, c, have, in)
	started := s.State.Running != nil && probed(c.StartupProbe, in.Started, have)
	s.Started = &started
	s.Ready = started && probed(c.ReadinessProbe, in.Ready, have)
	return s
}

// setCurrent copies the runtime's data about the current and the previous attempt to the status.
func setCurrent(s *corev1.ContainerStatus, c *corev1.Container, have *Container, in StatusInput) {
	s.ContainerID = containerID(have, in)
	s.RestartCount = int32(have.Restarts)
	s.ImageID = have.ImageID
	if have.Image != "" {
		s.Image = have.Image
	}
	s.Resources = actualResources(c, have, in.Observed.Resize)
	s.AllocatedResources = c.Resources.DeepCopy().Requests
	s.User = have.User.DeepCopy()
	switch have.State {
	case Running:
		s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(have.StartedAt)}}
	case Exited:
		s.State = corev1.ContainerState{Terminated: terminated(have, in)}
	// The container was created and not started: the status keeps the reason why it is waiting.
	case Created:
	default: // the kubelet sets no reason either
		s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
	}
	if last := in.Observed.Previous(have); last != nil {
		s.LastTerminationState.Terminated = lastTermination(last, in)
		if have.State == Created { // the pod has already run, so it is not initializing
			s.State.Waiting.Reason = ""
		}
	}
}

// setWaiting sets the reason why a container that should be started has not been started. If podrun
// will not start or restart the container, setWaiting does not change the state.
func setWaiting(s *corev1.ContainerStatus, pod *corev1.Pod, c *corev1.Container, have *Container, in StatusInput) {
	why, ok := in.Waiting[c.Name]
	if !ok || in.Over || !due(pod, c, have, in.Observed) {
		return
	}
	if s.State.Terminated != nil {
		s.LastTerminationState = s.State
	}
	s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: why.Reason, Message: why.Message}}
}

// due reports whether a container should be started or restarted.
func due(pod *corev1.Pod, c *corev1.Container, have *Container, obs *Observed) bool {
	switch {
	case pod.DeletionTimestamp != nil:
		return false
	case have == nil:
		return true
	case have.State == Running:
		return false
	case have.State != Exited:
		return true
	case have.ExitCode == 0 && isRegularInit(pod, c):
		return false
	}
	return obs.startsAgain(pod, c, have)
}

func isRegularInit(pod *corev1.Pod, c *corev1.Container) bool {
	return !podutil.IsRestartableInitContainer(c) && slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

// probed reports whether a container passes a probe: either it has no such probe, or the last
// result was a success.
func probed(p *corev1.Probe, results map[string]bool, have *Container) bool {
	return have != nil && (p == nil || results[have.ID])
}

// terminated describes how an attempt exited. It returns nil if the attempt has not exited.
func terminated(c *Container, in StatusInput) *corev1.ContainerStateTerminated {
	if c.State != Exited {
		return nil
	}
	message := c.Message
	if m := in.Messages[c.ID]; m != "" {
		if message != "" {
			message += ": "
		}
		message += m
	}
	return &corev1.ContainerStateTerminated{
		ExitCode:    c.ExitCode,
		Reason:      c.Reason,
		Message:     message,
		StartedAt:   startTime(c),
		FinishedAt:  metaTime(c.FinishedAt),
		ContainerID: containerID(c, in),
	}
}

// maxTerminationMessages limits the total size of the termination messages of a pod, in bytes. Each
// container gets an equal share (pkg/kubelet/container, MaxPodTerminationMessageLogLength). Unlike the
// kubelet, podrun does not truncate within a character.
const maxTerminationMessages = 12 << 10

// boundMessages truncates the termination messages, because a container or the runtime may write any
// amount of text.
func boundMessages(s *corev1.PodStatus) {
	lists := [][]corev1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses}
	limit := maxTerminationMessages / max(1, len(lists[0])+len(lists[1])+len(lists[2]))
	for _, list := range lists {
		for i := range list {
			for _, end := range []*corev1.ContainerStateTerminated{list[i].State.Terminated, list[i].LastTerminationState.Terminated} {
				if end != nil {
					end.Message = event.CutBytes(end.Message, limit)
				}
			}
		}
	}
}

// metaTime converts a time. A zero time remains zero, so that JSON contains null and not the year 1.
// startTime returns the start time of an exited container. If its start failed, the kubelet reports the beginning
// of 1970, because the runtime reports 0 (pkg/kubelet/kuberuntime, toKubeContainerStatus).
func startTime(c *Container) metav1.Time {
	if c.StartedAt.IsZero() {
		return metav1.Unix(0, 0)
	}
	return metav1.NewTime(c.StartedAt)
}

func metaTime(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t)
}

func containerID(c *Container, in StatusInput) string {
	if c.CreateFailed {
		return ""
	}
	return in.RuntimeName + "://" + c.ID
}

// mountStatuses reports for each volume mount whether it is read-only and whether it is recursively
// read-only (KEP-3857).
func mountStatuses(c *corev1.Container, recursive bool) []corev1.VolumeMountStatus {
	var out []corev1.VolumeMountStatus
	for i := range c.VolumeMounts {
		m := &c.VolumeMounts[i]
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			mode := corev1.RecursiveReadOnlyDisabled
			if recursive && wantsRecursive(m) {
				mode = corev1.RecursiveReadOnlyEnabled
			}
			s.RecursiveReadOnly = &mode
		}
		out = append(out, s)
	}
	return out
}

// wantsRecursive reports whether a read-only mount requests to be recursively read-only. A mount
// with mount propagation cannot be recursively read-only.
func wantsRecursive(m *corev1.VolumeMount) bool {
	if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
		return false
	}
	return m.RecursiveReadOnly != nil && *m.RecursiveReadOnly != corev1.RecursiveReadOnlyDisabled
}
