package manifest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FromAPIServer returns a pod that an API server has admitted. It keeps the UID and the generation, drops
// the status and the metadata that podrun does not use, and applies the defaults of this binary, because
// an older API server does not know all of them. It does not validate the pod again. It does not change
// its argument, with which the result shares no memory.
func FromAPIServer(pod *corev1.Pod) Pod {
	out := pod.DeepCopy()
	nodeName := out.Spec.NodeName
	out.TypeMeta = typeMeta("v1", "Pod")
	out.ObjectMeta = APIServerMeta(out.ObjectMeta)
	out.Status = corev1.PodStatus{}
	out.Spec.NodeName = ""
	defaultPod(out)
	return Pod{Object: out, NodeName: nodeName, Definition: definedByPod(), WroteDNSPolicy: true, OfCluster: true}
}

// APIServerMeta returns the metadata that podrun keeps of an object of an API server.
func APIServerMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, UID: m.UID, Generation: m.Generation,
		Labels: m.Labels, Annotations: m.Annotations}
}
