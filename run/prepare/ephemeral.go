package prepare

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// debugged is a pod with the ephemeral containers of the pod of its name on this host,
// which its manifest need not list, and with in.Debug.
func (in Input) debugged(pod *corev1.Pod) *corev1.Pod {
	for _, h := range in.Here {
		if h.Pod != nil && h.ID.Namespace == pod.Namespace && h.ID.Name == pod.Name {
			return manifest.AddEphemeral(manifest.KeepEphemeral(h.Pod, pod), in.Debug)
		}
	}
	return pod
}

// withoutEphemeral is the pod of a target that is created again, without the ephemeral
// containers of the one before: they are of a running pod.
func (t Target) withoutEphemeral(pod *corev1.Pod) *corev1.Pod {
	if t.Change == ChangeUnchanged || t.Change == ChangeUpdate || len(pod.Spec.EphemeralContainers) == 0 {
		return pod
	}
	out := *pod
	out.Spec.EphemeralContainers = nil
	return &out
}

// ephemeralProblems refuses ephemeral containers as the API server does: those of a
// manifest that makes a pod, and others than additions to those of a running one. Pod
// is that of the input, will that with the ephemeral containers that the pod has.
func (t Target) ephemeralProblems(pod, will *corev1.Pod, debug *corev1.EphemeralContainer) problem.List {
	if t.Change == ChangeUnchanged || t.Change == ChangeUpdate || debug == nil && len(pod.Spec.EphemeralContainers) == 0 {
		return nil
	}
	var messages []string
	if t.Was.Pod != nil {
		messages = manifest.EphemeralErrors(t.Was.Pod, will)
	}
	if len(messages) == 0 {
		messages = []string{manifest.EphemeralOnCreate}
	}
	var out problem.List
	for _, m := range messages {
		out = append(out, manifest.EphemeralProblem(m))
	}
	return out
}
