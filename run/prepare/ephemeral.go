package prepare

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// withEphemeral returns pod with two additions: in.Debug, and the ephemeral containers of the existing
// pod of the same name, which manifests usually do not list.
func (in Input) withEphemeral(pod *corev1.Pod) *corev1.Pod {
	for _, h := range in.Existing {
		if h.Pod != nil && h.ID.Namespace == pod.Namespace && h.ID.Name == pod.Name {
			return manifest.AddEphemeral(manifest.KeepEphemeral(h.Pod, pod), in.Debug)
		}
	}
	return pod
}

// withoutEphemeral returns pod without its ephemeral containers if podrun recreates the pod,
// because the containers belonged to the previous pod.
func (t Target) withoutEphemeral(pod *corev1.Pod) *corev1.Pod {
	if t.Change == ChangeUnchanged || t.Change == ChangeUpdate || len(pod.Spec.EphemeralContainers) == 0 {
		return pod
	}
	out := *pod
	out.Spec.EphemeralContainers = nil
	return &out
}

// ephemeralProblems refuses ephemeral containers as the API server does. A manifest that creates a pod
// must not contain ephemeral containers, and an update of a running pod may only add them. The
// argument pod is the pod in the input; will is the same pod with the existing pod's ephemeral
// containers.
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
