package manifest

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
)

// PreferUserNamespace sets `hostUsers: false` in a copy of a pod that does not set hostUsers. It
// also adds an annotation that records that this is podrun's default. It changes the pod itself,
// as a mutating webhook does.
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

// HasPreferredUserNamespace reports whether a pod has `hostUsers: false` because it is podrun's
// default.
func HasPreferredUserNamespace(pod *corev1.Pod) bool {
	return pod.Annotations[identity.AnnotationUserNamespace] == identity.UserNamespacePreferred && pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers
}

// KeepUserNamespace returns pod with the default of hostUsers that the pod on this host, "here", has, unless pod
// itself sets hostUsers. A changed setting, or a changed host, must not cause a replacement.
func KeepUserNamespace(here, pod *corev1.Pod) *corev1.Pod {
	if !HasPreferredUserNamespace(here) {
		return pod
	}
	return PreferUserNamespace(pod)
}

// withoutMark returns the annotations without the one that PreferUserNamespace adds, because
// the author did not write that one.
func withoutMark(annotations map[string]string) map[string]string {
	if _, marked := annotations[identity.AnnotationUserNamespace]; !marked {
		return annotations
	}
	out := maps.Clone(annotations)
	delete(out, identity.AnnotationUserNamespace)
	return out
}
