package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// tally counts a pod's containers by their effect on its phase.
type tally struct {
	initFailed     bool // a regular init container failed and is not restarted
	initPending    bool // a regular init container has never finished
	sidecarPending bool // a sidecar has never started
	running        int  // app containers and sidecars
	waiting        int  // app containers and sidecars that have never run
	stopped        int  // app containers that have exited, in their current attempt or in the previous one
	// stopped containers that will be started again
	restarting int
	// stopped containers whose current attempt exited with 0
	succeeded int
}

// phaseOf returns the phase by the kubelet's rules. Sidecars never delay completion: phaseOf ignores
// their exits, and the engine stops them when every app container has exited (k/k#125935).
func phaseOf(pod *corev1.Pod, s *corev1.PodStatus, in StatusInput) corev1.PodPhase {
	switch kept := in.Observed.Kept; {
	case kept.Terminal():
		return kept.Phase
	case in.Reason != "":
		return corev1.PodFailed
	}
	t := count(pod, s, in.Observed)
	initialized := AnyAppContainer(pod, in.Observed)
	switch {
	case t.initFailed:
		return corev1.PodFailed
	case in.Over && t.neverStarted():
		// Containers that were not started will never be started, so the pod is not pending (TerminatePod in
		// pkg/kubelet/status).
		return corev1.PodFailed
	case t.initPending, t.sidecarPending && !initialized, t.waiting > 0:
		return corev1.PodPending
	case t.running > 0:
		return corev1.PodRunning
	case t.stopped == 0:
		return corev1.PodPending
	case (t.restarting > 0 || restartsAll(pod, in.Observed)) && !in.Over:
		return corev1.PodRunning
	case t.succeeded == t.stopped:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

// neverStarted reports whether the pod has no running container, and at least one container that
// must still start. An init container must still start if it has not succeeded, and an app
// container or sidecar must still start if it has never run.
func (t *tally) neverStarted() bool {
	return t.running == 0 && (t.initPending || t.waiting > 0)
}

// restartsAll reports whether podrun is restarting all containers (KEP-5532) and has not restarted
// every app container yet. The earlier exits of the containers that were not restarted yet do not
// affect the pod's phase.
func restartsAll(pod *corev1.Pod, obs *Observed) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return obs.Newest(c.Name) != nil && obs.Latest(c.Name) == nil
	})
}

func count(pod *corev1.Pod, s *corev1.PodStatus, obs *Observed) tally {
	var t tally
	for i := range s.InitContainerStatuses {
		st, c := &s.InitContainerStatuses[i], &pod.Spec.InitContainers[i]
		if podutil.IsRestartableInitContainer(c) {
			t.sidecar(st)
		} else {
			t.init(pod, c, st)
		}
	}
	for i := range s.ContainerStatuses {
		st := &s.ContainerStatuses[i]
		at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == st.Name })
		t.app(pod, &pod.Spec.Containers[at], st, obs)
	}
	return t
}

func (t *tally) init(pod *corev1.Pod, c *corev1.Container, s *corev1.ContainerStatus) {
	end := ended(s)
	switch {
	case end == nil:
		t.initPending = true
	case end.ExitCode != 0 && end.Reason != restartingAll && !podutil.ContainerShouldRestart(*c, pod.Spec, end.ExitCode):
		t.initFailed = true
	}
}

func (t *tally) sidecar(s *corev1.ContainerStatus) {
	switch {
	case s.State.Running != nil:
		t.running++
		t.sidecarPending = t.sidecarPending || !*s.Started
	case ended(s) == nil:
		t.waiting++
		t.sidecarPending = true
	}
}

func (t *tally) app(pod *corev1.Pod, c *corev1.Container, s *corev1.ContainerStatus, obs *Observed) {
	end := ended(s)
	switch {
	case s.State.Running != nil:
		t.running++
		return
	case end == nil:
		t.waiting++
		return
	}
	t.stopped++
	if last := obs.Latest(c.Name); last != nil && !obs.hasEnded(pod, c, last) || end.Reason == restartingAll || podutil.ContainerShouldRestart(*c, pod.Spec, end.ExitCode) {
		t.restarting++
	}
	// A container that waits to be restarted has not succeeded, whatever its last exit code.
	if s.State.Terminated != nil && end.ExitCode == 0 {
		t.succeeded++
	}
}

// ended returns the last exit of a container that does not run. It returns nil if the container runs
// or never ran.
func ended(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	switch {
	case s.State.Running != nil:
		return nil
	case s.State.Terminated != nil:
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

// deferTerminalPhase keeps a pod out of a terminal phase while any of its containers is running: a pod in a terminal
// phase must not use resources.
func deferTerminalPhase(pod *corev1.Pod, phase corev1.PodPhase, obs *Observed) corev1.PodPhase {
	if phase != corev1.PodSucceeded && phase != corev1.PodFailed {
		return phase
	}
	if !slices.ContainsFunc(obs.Containers, func(c Container) bool { return c.State == Running }) {
		return phase
	}
	if AnyAppContainer(pod, obs) {
		return corev1.PodRunning
	}
	return corev1.PodPending
}
