package manifest

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"
)

// WorkloadObject returns the workload that defines a pod, with the pod as its template, with the
// API's defaults, and without a status. If no workload defines the pod, it returns nil. If the
// workload is applied again, the result is the same pod.
func WorkloadObject(pod *corev1.Pod, by *Definition) (runtime.Object, error) {
	if pod == nil || by == nil || by.Workload == nil {
		return nil, nil
	}
	w := workloads[by.Kind]
	obj := w.make()
	if err := kjson.UnmarshalCaseSensitivePreserveInts(by.Workload, obj); err != nil {
		return nil, fmt.Errorf("read the %s %s: %w", by.Kind, pod.Name, err)
	}
	meta, template := w.get(obj)
	if template == nil {
		return nil, fmt.Errorf("read the %s %s: it has no pod template", by.Kind, pod.Name)
	}
	meta.Namespace = pod.Namespace
	meta.Name = by.WorkloadName(pod.Name)
	meta.CreationTimestamp = pod.CreationTimestamp
	*template = templateOf(pod)
	if set, ok := obj.(*appsv1.StatefulSet); ok {
		if by.Honours() {
			withoutOrdinal(template)
		}
		template.Spec.Volumes = slices.DeleteFunc(template.Spec.Volumes, func(v corev1.Volume) bool {
			return slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(c corev1.PersistentVolumeClaim) bool { return c.Name == v.Name })
		})
	}
	w.setDefaults(obj)
	return obj.(runtime.Object), nil
}

// templateOf returns the pod template from which the pod results.
func templateOf(pod *corev1.Pod) corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: withoutMark(pod.Annotations)},
		Spec:       authored(pod).Spec,
	}
	// A template cannot have ephemeral containers.
	template.Spec.EphemeralContainers = nil
	if HasPreferredUserNamespace(pod) {
		template.Spec.HostUsers = nil
	}
	return template
}
