package prepare

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
)

// Differs reports whether a definition differs from a checkpoint, so that Compare would not return ChangeUnchanged.
func Differs(c *manifest.Checkpoint, pod *corev1.Pod, objects *manifest.Objects) bool {
	pod = manifest.KeepEphemeral(c.Pod, pod)
	live, bound, _ := c.Diff(manifest.Referred(pod, objects))
	return len(manifest.Changes(c.Pod, pod))+len(live)+len(bound) > 0
}

// Compare determines the relation of a pod in the input to the pods of the same name on this host. A pod that is
// unchanged, updated in place or restarted with --force keeps its UID, even if StaticUID now returns another UID
// because a release has changed defaults or the node was renamed. If a pod is replaced because its manifest differs,
// it gets a new UID, as a static pod of the kubelet does.
func Compare(pod *corev1.Pod, in Input) Target {
	uid := manifest.UID(pod, in.Facts.NodeName, in.Facts.RootDir)
	var existing []ExistingPod
	for _, h := range in.Existing {
		if h.ID.Namespace == pod.Namespace && h.ID.Name == pod.Name {
			existing = append(existing, h)
		}
	}
	if len(existing) == 0 {
		return Target{Change: ChangeNew, UID: uid}
	}
	if slices.ContainsFunc(existing, func(h ExistingPod) bool { return h.Broken != nil }) {
		return Target{Change: ChangeReplace, Old: in.definedBy(pod, existing), UID: uid}
	}
	if was := existing[0]; len(existing) == 1 && was.Recreates && in.KeepUID && was.Pod != nil {
		// A process was killed while it replaced the pod.
		return Target{Change: ChangeReplace, Old: existing, UID: was.ID.UID, KeepsUID: true, Was: was, Changes: manifest.Changes(was.Pod, pod)}
	}
	if len(existing) > 1 || existing[0].Pod == nil || existing[0].Ending || pod.UID != "" && existing[0].ID.UID != uid {
		return Target{Change: ChangeReplace, Old: existing, UID: uid}
	}
	was := existing[0]
	if in.KeepUID {
		uid = was.ID.UID
	}
	pod = manifest.KeepEphemeral(was.Pod, pod)
	t := Target{Changes: manifest.Changes(was.Pod, pod), UID: was.ID.UID, KeepsUID: in.KeepUID, since: &was.Pod.CreationTimestamp, Was: was}
	samePod := len(t.Changes) == 0
	rebuilt := t.objectChanges(was, pod, in.Objects)
	// If a stop has killed containers that the pod's restartPolicy does not restart, the pod runs
	// again.
	resumes := was.Ended && was.Interrupted && len(t.Changes) == 0 && !in.KeepEnded && in.Debug == nil
	switch {
	case in.Force, resumes, in.RestartedAt && was.Pod.Annotations[identity.AnnotationRestartedAt] != pod.Annotations[identity.AnnotationRestartedAt]:
		t.Change = ChangeReplace
		t.Old = existing
		t.since = nil
		if t.Forced = len(t.Changes) == 0; !t.Forced {
			t.UID = uid
		}
	case len(t.Changes) == 0:
		t.Change = ChangeUnchanged
	case !rebuilt && (samePod || manifest.InPlace(was.Pod, pod) && sameAddress(was.Pod, pod)):
		if t.Change = ChangeUpdate; was.Ended && !in.KeepEnded { // no container remains that could be updated in place
			t.Change = ChangeReplace
			t.Old = existing
		}
	default:
		t.Change = ChangeReplace
		t.Old = existing
		t.UID = uid
		t.since = nil
	}
	return t
}
