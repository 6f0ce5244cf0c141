package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// workload is a kind that has a pod template.
type workload struct {
	apiVersion string
	template   string                 // path of the template
	restart    []corev1.RestartPolicy // those that the API allows its pods; empty: any
	make       func() any
	get        func(any) (metav1.ObjectMeta, *corev1.PodTemplateSpec)
}

var (
	always = []corev1.RestartPolicy{corev1.RestartPolicyAlways}
	ending = []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
)

// workloads are the kinds with a pod template, by name.
var workloads = map[string]workload{
	"Deployment": workloadOf("apps/v1", "spec.template", always, func(o *appsv1.Deployment) (metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return o.ObjectMeta, &o.Spec.Template
	}),
	"DaemonSet": workloadOf("apps/v1", "spec.template", always, func(o *appsv1.DaemonSet) (metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return o.ObjectMeta, &o.Spec.Template
	}),
	"StatefulSet": workloadOf("apps/v1", "spec.template", always, func(o *appsv1.StatefulSet) (metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return o.ObjectMeta, &o.Spec.Template
	}),
	"ReplicaSet": workloadOf("apps/v1", "spec.template", always, func(o *appsv1.ReplicaSet) (metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return o.ObjectMeta, &o.Spec.Template
	}),
	"ReplicationController": workloadOf("v1", "spec.template", always, func(o *corev1.ReplicationController) (metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return o.ObjectMeta, o.Spec.Template
	}),
	"Job": workloadOf("batch/v1", "spec.template", ending, func(o *batchv1.Job) (metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return o.ObjectMeta, &o.Spec.Template
	}),
	"CronJob": workloadOf("batch/v1", "spec.jobTemplate.spec.template", ending, func(o *batchv1.CronJob) (metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return o.ObjectMeta, &o.Spec.JobTemplate.Spec.Template
	}),
	"PodTemplate": workloadOf("v1", "template", nil, func(o *corev1.PodTemplate) (metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return o.ObjectMeta, &o.Template
	}),
}

func workloadOf[T any](apiVersion, template string, restart []corev1.RestartPolicy, get func(*T) (metav1.ObjectMeta, *corev1.PodTemplateSpec)) workload {
	return workload{apiVersion: apiVersion, template: template, restart: restart,
		make: func() any { return new(T) },
		get:  func(o any) (metav1.ObjectMeta, *corev1.PodTemplateSpec) { return get(o.(*T)) },
	}
}

// workload creates one pod from an object's pod template, named after the object, with a
// notice. Settings for a controller (replicas, schedules, updates) have no effect.
func (l *loader) workload(it item, h header) {
	w := workloads[h.Kind]
	obj := w.make()
	if !l.decode(it, l.objectName(h), obj) {
		return
	}
	meta, template := w.get(obj)
	if template == nil {
		l.add(it.problem(l.objectName(h), w.template, "FieldValueRequired", "a pod template is required"))
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: meta.Name, GenerateName: meta.GenerateName, Namespace: meta.Namespace,
		Labels: template.Labels, Annotations: template.Annotations,
	}, Spec: template.Spec}
	it.rename = [][2]string{{"spec", w.template + ".spec"}, {"metadata.labels", w.template + ".metadata.labels"}, {"metadata.annotations", w.template + ".metadata.annotations"}}
	l.restartPolicy(it, h, w, &pod.Spec)
	if set, ok := obj.(*appsv1.StatefulSet); ok {
		l.claimTemplates(it, set, pod)
	}
	note := it.problem(l.objectName(h), "", "PodTemplate", fmt.Sprintf("podrun runs one pod of the template of this %s, and does nothing else that it asks for", h.Kind))
	note.Warning = true
	l.add(note)
	l.takePod(it, pod, h.Kind)
}

// restartPolicy refuses values that the API refuses in a template of this kind.
func (l *loader) restartPolicy(it item, h header, w workload, spec *corev1.PodSpec) {
	policy := spec.RestartPolicy
	if policy == "" {
		policy = corev1.RestartPolicyAlways
	}
	if len(w.restart) == 0 || slices.Contains(w.restart, policy) {
		return
	}
	allowed := make([]string, len(w.restart))
	for i, p := range w.restart {
		allowed[i] = string(p)
	}
	l.add(it.problem(l.objectName(h), it.field("spec.restartPolicy"), "FieldValueNotSupported",
		fmt.Sprintf("the pods of a %s have restartPolicy %s, not %s", h.Kind, strings.Join(allowed, " or "), policy)))
}

// claimTemplates gives the pod the claims of a StatefulSet's first pod, under
// the names that the controller gives them, and the volumes that use them.
func (l *loader) claimTemplates(it item, set *appsv1.StatefulSet, pod *corev1.Pod) {
	for i, claim := range set.Spec.VolumeClaimTemplates {
		name := claim.Name
		claim.Name, claim.Namespace = fmt.Sprintf("%s-%s-0", name, set.Name), set.Namespace
		at := fmt.Sprintf("spec.volumeClaimTemplates[%d]", i)
		raw, err := json.Marshal(claim)
		if err != nil {
			l.add(it.problem("StatefulSet "+set.Name, at, "FieldValueInvalid", err.Error()))
			continue
		}
		entry := item{doc: it.doc, prefix: it.prefix + at + ".", raw: raw}
		l.volumeClaim(entry, header{APIVersion: "v1", Kind: "PersistentVolumeClaim"})
		volume := corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}
		pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		pod.Spec.Volumes = append(pod.Spec.Volumes, volume)
	}
}
