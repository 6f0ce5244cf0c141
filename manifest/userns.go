package manifest

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
)

// PreferUserNamespace returns a pod without hostUsers with hostUsers: false, and the mark
// that this is podrun's default: a field of the pod, as if a mutating webhook had set it.
func PreferUserNamespace(pod *corev1.Pod) *corev1.Pod {
	if pod.Spec.HostUsers != nil {
		return pod
	}
	out, no := *pod, false
	out.Spec.HostUsers = &no
	out.Annotations = maps.Clone(pod.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[identity.AnnotationUserNamespace] = identity.UserNamespacePreferred
	return &out
}

// HasPreferredUserNamespace reports whether hostUsers: false of a pod is podrun's default.
func HasPreferredUserNamespace(pod *corev1.Pod) bool {
	return pod.Annotations[identity.AnnotationUserNamespace] == identity.UserNamespacePreferred && pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers
}

// KeepUserNamespace returns a pod without hostUsers with the default that the pod has as
// which it exists: a changed setting, or a changed host, replaces no pod.
func KeepUserNamespace(here, pod *corev1.Pod) *corev1.Pod {
	if !HasPreferredUserNamespace(here) {
		return pod
	}
	return PreferUserNamespace(pod)
}

// withoutMark are annotations without the mark of PreferUserNamespace, which is not the
// author's.
func withoutMark(annotations map[string]string) map[string]string {
	if _, marked := annotations[identity.AnnotationUserNamespace]; !marked {
		return annotations
	}
	out := maps.Clone(annotations)
	delete(out, identity.AnnotationUserNamespace)
	return out
}
