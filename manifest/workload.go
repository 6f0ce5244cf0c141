package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsdefaults "k8s.io/kubernetes/pkg/apis/apps/v1"
	batchdefaults "k8s.io/kubernetes/pkg/apis/batch/v1"
	coredefaults "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/podrun/podrun/internal/identity"
)

// workload is a kind that contains a pod template.
type workload struct {
	apiVersion string
	template   string // path of the template in the object
	make       func() any
	get        func(any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec)
	// the API's validation, which changes the object
	validate func(any) (field.ErrorList, error)
	// setDefaults applies the API's defaults.
	setDefaults func(any)
}

// workloads maps names to the kinds that have a pod template.
var workloads = map[string]workload{
	"Deployment": workloadOf("apps/v1", "spec.template", func(o *appsv1.Deployment) (*metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return &o.ObjectMeta, &o.Spec.Template
	}, validateDeployment, appsdefaults.SetObjectDefaults_Deployment),
	"DaemonSet": workloadOf("apps/v1", "spec.template", func(o *appsv1.DaemonSet) (*metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return &o.ObjectMeta, &o.Spec.Template
	}, validateDaemonSet, appsdefaults.SetObjectDefaults_DaemonSet),
	"StatefulSet": workloadOf("apps/v1", "spec.template", func(o *appsv1.StatefulSet) (*metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return &o.ObjectMeta, &o.Spec.Template
	}, validateStatefulSet, appsdefaults.SetObjectDefaults_StatefulSet),
	"ReplicaSet": workloadOf("apps/v1", "spec.template", func(o *appsv1.ReplicaSet) (*metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return &o.ObjectMeta, &o.Spec.Template
	}, validateReplicaSet, appsdefaults.SetObjectDefaults_ReplicaSet),
	"ReplicationController": workloadOf("v1", "spec.template", func(o *corev1.ReplicationController) (*metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return &o.ObjectMeta, o.Spec.Template
	}, validateReplicationController, coredefaults.SetObjectDefaults_ReplicationController),
	"Job": workloadOf("batch/v1", "spec.template", func(o *batchv1.Job) (*metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return &o.ObjectMeta, &o.Spec.Template
	}, validateJob, batchdefaults.SetObjectDefaults_Job),
	"CronJob": workloadOf("batch/v1", "spec.jobTemplate.spec.template", func(o *batchv1.CronJob) (*metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return &o.ObjectMeta, &o.Spec.JobTemplate.Spec.Template
	}, validateCronJob, batchdefaults.SetObjectDefaults_CronJob),
	"PodTemplate": workloadOf("v1", "template", func(o *corev1.PodTemplate) (*metav1.ObjectMeta, *corev1.PodTemplateSpec) {
		return &o.ObjectMeta, &o.Template
	}, validatePodTemplate, coredefaults.SetObjectDefaults_PodTemplate),
}

func workloadOf[T any](apiVersion, template string, get func(*T) (*metav1.ObjectMeta, *corev1.PodTemplateSpec), validate func(*T) (field.ErrorList, error), setDefaults func(*T)) workload {
	return workload{apiVersion: apiVersion, template: template,
		make:        func() any { return new(T) },
		get:         func(o any) (*metav1.ObjectMeta, *corev1.PodTemplateSpec) { return get(o.(*T)) },
		validate:    func(o any) (field.ErrorList, error) { return validate(o.(*T)) },
		setDefaults: func(o any) { setDefaults(o.(*T)) },
	}
}

// workload creates one pod from the pod template of an object, gives it the object's name, and
// adds a notice. Settings for a controller (replicas, schedules, updates) have no effect.
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
	l.generateName(meta)
	if h.Metadata.Name = meta.Name; l.unnamed(it, l.objectName(h), meta) {
		return
	}
	honours := l.honours(it, h, obj, meta)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: meta.Name, GenerateName: meta.GenerateName, Namespace: meta.Namespace,
		Labels: template.Labels, Annotations: template.Annotations,
	}, Spec: template.Spec}
	by, err := newDefinition(h.Kind, w, obj)
	if err != nil {
		l.add(it.problem(l.objectName(h), "", "FieldValueInvalid", err.Error()))
		return
	}
	before := len(l.problems)
	l.validateWorkload(it, h, w, obj.(runtime.Object).DeepCopyObject())
	it.rename = [][2]string{{"spec", w.template + ".spec"}, {"metadata.labels", w.template + ".metadata.labels"}, {"metadata.annotations", w.template + ".metadata.annotations"}}
	if set, ok := obj.(*appsv1.StatefulSet); ok {
		l.claimTemplates(it, set, pod)
		// The controller replaces both (initIdentity in pkg/controller/statefulset), so the API does not
		// validate them.
		if pod.Spec.Hostname = ""; pod.Spec.Subdomain != "" {
			pod.Spec.Subdomain = set.Spec.ServiceName
		}
		if honours {
			pod.Labels = maps.Clone(pod.Labels)
			setOrdinal(&pod.ObjectMeta, &pod.Spec, set.Name, set.Spec.ServiceName, 0)
		}
	}
	taken := len(l.objects.Pods)
	if l.opts.Controllers && hasController(h.Kind) {
		l.takePod(it, pod, by)
		l.controlled(obj)
	} else {
		if !honours {
			l.templateNote(it, h, obj, meta)
		}
		l.takePod(it, pod, by)
		if honours && len(l.objects.Pods) > taken {
			l.replicas(it, h, obj)
		}
	}
	l.problems = append(l.problems[:before], withoutRepeated(l.problems[before:])...)
}

// templateNote adds the notice that podrun runs one pod from the template of an object, if a cluster would run
// another number of pods on one node.
func (l *loader) templateNote(it item, h header, obj any, meta *metav1.ObjectMeta) {
	note := it.problem(l.objectName(h), "", ReasonTemplate, templateNotes[h.Kind])
	note.Warning = true
	written, ok := replicasOf(obj)
	switch {
	case note.Message != "":
	case ok && *written != nil && **written != 1 && meta.Annotations[identity.AnnotationReplicas] == "":
		note.Message = fmt.Sprintf("podrun runs one pod from the template of this %s: spec.replicas is %d", h.Kind, **written)
		note.Hint = fmt.Sprintf("add the annotation %s: %s to the %s to run %s", identity.AnnotationReplicas, identity.ReplicasHonour, h.Kind, podCount(int(**written)))
	default:
		return
	}
	l.add(note)
}

// claimTemplates adds the claims of a StatefulSet's first pod to the pod, with the names that
// the controller gives them. It also adds the volumes that use the claims.
func (l *loader) claimTemplates(it item, set *appsv1.StatefulSet, pod *corev1.Pod) {
	for i, claim := range set.Spec.VolumeClaimTemplates {
		name := claim.Name
		claim.Name = ClaimName(name, set.Name, 0)
		claim.Namespace = set.Namespace
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

// podCount returns a number of pods in words.
func podCount(n int) string {
	switch n {
	case 0:
		return "no pod"
	case 1:
		return "one pod"
	}
	return fmt.Sprintf("%d pods", n)
}
