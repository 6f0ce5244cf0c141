package view

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podrun/podrun/internal/event"
)

// Workload writes the lines that 'kubectl describe' (v1.36) prints for a workload. The events are those
// of its pods, because podrun has no events of workloads; each message begins with the pod's name. If
// events is nil, it writes no table of events.
func (d *Description) Workload(workload runtime.Object, pods []*corev1.Pod, events []event.Event) {
	switch o := workload.(type) {
	case *appsv1.Deployment:
		d.deployment(o)
	case *appsv1.StatefulSet:
		d.statefulSet(o, pods)
	case *appsv1.DaemonSet:
		d.daemonSet(o, pods)
	case *appsv1.ReplicaSet:
		d.replicaSet(o, pods)
	case *corev1.ReplicationController:
		d.replicationController(o, pods)
	case *batchv1.Job:
		describeJob(d, o)
	case *batchv1.CronJob:
		describeCronJob(d, o)
	case *corev1.PodTemplate:
		d.metadata(&o.ObjectMeta)
		d.podTemplate(&o.Template)
	}
	if events != nil {
		d.events(events, func(e event.Event) string { return "pod " + e.Pod + ": " })
	}
}

func (d *Description) deployment(o *appsv1.Deployment) {
	d.row(0, "Name:", o.Name)
	d.row(0, "Namespace:", o.Namespace)
	d.row(0, "CreationTimestamp:", d.time(o.CreationTimestamp))
	d.labelsAndAnnotations(&o.ObjectMeta)
	d.row(0, "Selector:", selectorText(o.Spec.Selector))
	s := o.Status
	d.row(0, "Replicas:", fmt.Sprintf("%d desired | %d updated | %d total | %d available | %d unavailable",
		Desired(o, o.Spec.Replicas, s.Replicas), s.UpdatedReplicas, s.Replicas, s.AvailableReplicas, s.UnavailableReplicas))
	d.row(0, "StrategyType:", string(o.Spec.Strategy.Type))
	d.row(0, "MinReadySeconds:", fmt.Sprint(o.Spec.MinReadySeconds))
	if u := o.Spec.Strategy.RollingUpdate; u != nil {
		d.row(0, "RollingUpdateStrategy:", fmt.Sprintf("%s max unavailable, %s max surge", u.MaxUnavailable.String(), u.MaxSurge.String()))
	}
	d.podTemplate(&o.Spec.Template)
	var conditions []workloadCondition
	for _, c := range s.Conditions {
		conditions = append(conditions, workloadCondition{string(c.Type), string(c.Status), c.Reason})
	}
	d.workloadConditions(conditions)
}

func (d *Description) statefulSet(o *appsv1.StatefulSet, pods []*corev1.Pod) {
	d.row(0, "Name:", o.Name)
	d.row(0, "Namespace:", o.Namespace)
	d.row(0, "CreationTimestamp:", d.time(o.CreationTimestamp))
	d.row(0, "Selector:", selectorText(o.Spec.Selector))
	d.labelsAndAnnotations(&o.ObjectMeta)
	d.row(0, "Replicas:", fmt.Sprintf("%d desired | %d total", Desired(o, o.Spec.Replicas, o.Status.Replicas), o.Status.Replicas))
	d.row(0, "Update Strategy:", string(o.Spec.UpdateStrategy.Type))
	if u := o.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		d.row(1, "Partition:", fmt.Sprint(*u.Partition))
		if u.MaxUnavailable != nil {
			d.row(1, "MaxUnavailable:", u.MaxUnavailable.String())
		}
	}
	d.podsStatus(pods)
	d.podTemplate(&o.Spec.Template)
	d.claimTemplates(o.Spec.VolumeClaimTemplates)
}

func (d *Description) daemonSet(o *appsv1.DaemonSet, pods []*corev1.Pod) {
	d.row(0, "Name:", o.Name)
	d.row(0, "Namespace:", o.Namespace)
	d.row(0, "Selector:", selectorText(o.Spec.Selector))
	d.row(0, "Node-Selector:", labels.FormatLabels(o.Spec.Template.Spec.NodeSelector))
	d.labelsAndAnnotations(&o.ObjectMeta)
	s := o.Status
	d.row(0, fmt.Sprintf("Desired Number of Nodes Scheduled: %d", s.DesiredNumberScheduled))
	d.row(0, fmt.Sprintf("Current Number of Nodes Scheduled: %d", s.CurrentNumberScheduled))
	d.row(0, fmt.Sprintf("Number of Nodes Scheduled with Up-to-date Pods: %d", s.UpdatedNumberScheduled))
	d.row(0, fmt.Sprintf("Number of Nodes Scheduled with Available Pods: %d", s.NumberAvailable))
	d.row(0, fmt.Sprintf("Number of Nodes Misscheduled: %d", s.NumberMisscheduled))
	d.podsStatus(pods)
	d.podTemplate(&o.Spec.Template)
}

func (d *Description) replicaSet(o *appsv1.ReplicaSet, pods []*corev1.Pod) {
	d.row(0, "Name:", o.Name)
	d.row(0, "Namespace:", o.Namespace)
	d.row(0, "Selector:", metav1.FormatLabelSelector(o.Spec.Selector))
	d.labelsAndAnnotations(&o.ObjectMeta)
	d.controller(o)
	d.row(0, "Replicas:", fmt.Sprintf("%d current / %d desired", o.Status.Replicas, Desired(o, o.Spec.Replicas, o.Status.Replicas)))
	d.podsStatus(pods)
	d.podTemplate(&o.Spec.Template)
	var conditions []workloadCondition
	for _, c := range o.Status.Conditions {
		conditions = append(conditions, workloadCondition{string(c.Type), string(c.Status), c.Reason})
	}
	d.workloadConditions(conditions)
}

func (d *Description) replicationController(o *corev1.ReplicationController, pods []*corev1.Pod) {
	d.row(0, "Name:", o.Name)
	d.row(0, "Namespace:", o.Namespace)
	d.row(0, "Selector:", labels.FormatLabels(o.Spec.Selector))
	d.labelsAndAnnotations(&o.ObjectMeta)
	d.row(0, "Replicas:", fmt.Sprintf("%d current / %d desired", o.Status.Replicas, Desired(o, o.Spec.Replicas, o.Status.Replicas)))
	d.podsStatus(pods)
	d.podTemplate(o.Spec.Template)
	var conditions []workloadCondition
	for _, c := range o.Status.Conditions {
		conditions = append(conditions, workloadCondition{string(c.Type), string(c.Status), c.Reason})
	}
	d.workloadConditions(conditions)
}

// selectorText returns a selector as a query (k=v,k2 in (a,b)), or the error of an invalid one.
func selectorText(selector *metav1.LabelSelector) string {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "Failed to get selector: " + err.Error()
	}
	return s.String()
}

func (d *Description) controller(o metav1.Object) {
	if owner := metav1.GetControllerOf(o); owner != nil {
		d.row(0, "Controlled By:", owner.Kind+"/"+owner.Name)
	}
}

// podsStatus counts the pods by phase.
func (d *Description) podsStatus(pods []*corev1.Pod) {
	n := map[corev1.PodPhase]int{}
	for _, pod := range pods {
		n[pod.Status.Phase]++
	}
	d.row(0, "Pods Status:", fmt.Sprintf("%d Running / %d Waiting / %d Succeeded / %d Failed",
		n[corev1.PodRunning], n[corev1.PodPending], n[corev1.PodSucceeded], n[corev1.PodFailed]))
}

// podTemplate writes the template of a workload's pods.
func (d *Description) podTemplate(template *corev1.PodTemplateSpec) {
	d.inTemplate = true
	defer func() { d.inTemplate = false }()
	d.row(0, "Pod Template:")
	d.List("  Labels", Pairs(template.Labels))
	if len(template.Annotations) > 0 {
		d.List("  Annotations", AnnotationLines(template.Annotations))
	}
	spec, pod := &template.Spec, &corev1.Pod{} // kubectl does not resolve fieldRef in a template
	d.optionalRow(1, "Service Account", spec.ServiceAccountName)
	if len(spec.InitContainers) > 0 {
		d.Containers("Init Containers", pod, spec.InitContainers, nil)
	}
	d.Containers("Containers", pod, spec.Containers, nil)
	d.Volumes(spec.Volumes)
	d.topologySpread(spec)
	d.optionalRow(1, "Priority Class Name", spec.PriorityClassName)
	d.List("  Node-Selectors", Pairs(spec.NodeSelector))
	d.tolerations(spec)
}

// workloadCondition is a condition of a Deployment, ReplicaSet or ReplicationController.
type workloadCondition struct{ kind, status, reason string }

func (d *Description) workloadConditions(conditions []workloadCondition) {
	if len(conditions) == 0 {
		return
	}
	d.row(0, "Conditions:")
	d.row(1, "Type", "Status", "Reason")
	d.row(1, "----", "------", "------")
	for _, c := range conditions {
		d.row(1, c.kind+" ", c.status, c.reason)
	}
}

// claimTemplates writes the volume claim templates of a StatefulSet.
func (d *Description) claimTemplates(templates []corev1.PersistentVolumeClaim) {
	if len(templates) == 0 {
		d.row(0, "Volume Claims:", "<none>")
		return
	}
	d.row(0, "Volume Claims:")
	for _, c := range templates {
		class := c.Annotations[corev1.BetaStorageClassAnnotation]
		if class == "" && c.Spec.StorageClassName != nil {
			class = *c.Spec.StorageClassName
		}
		capacity := "<default>"
		if q, ok := c.Spec.Resources.Requests[corev1.ResourceStorage]; ok {
			capacity = q.String()
		}
		d.row(1, "Name:", c.Name)
		d.row(1, "StorageClass:", class)
		d.List("  Labels", Pairs(c.Labels))
		d.List("  Annotations", Pairs(c.Annotations))
		d.row(1, "Capacity:", capacity)
		d.row(1, "Access Modes:", fmt.Sprint(c.Spec.AccessModes))
	}
}
