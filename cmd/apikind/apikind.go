// Package apikind has the kinds of objects that commands know: their names on command lines, and the columns of their
// tables.
package apikind

import (
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/run/lifecycle"
)

// Type describes a kind other than Pod whose objects podrun keeps as the user applied
// them. It has kubectl's names for the type, and the columns of its table.
type Type struct {
	Kind     string
	Names    []string // plural, singular and short
	Resource string   // as -o name prints it: deployment.apps
	Headings []string
	// cells returns the cells of a row after NAME and before AGE.
	Cells func(o any, table view.TableOptions) []string
	// wide are the headings that -o wide adds. wideCells returns their cells; for workloads it is nil.
	Wide      []string
	WideCells func(o any) []string
	// template returns the pod template and the selector of a workload; nil for other kinds.
	Template func(o any) (*corev1.PodSpec, string)
}

// Headings that -o wide adds for workloads.
var (
	wideHeadings     = []string{"CONTAINERS", "IMAGES"}
	selectorHeadings = []string{"CONTAINERS", "IMAGES", "SELECTOR"}
)

// Workloads are the kinds of workloads from whose templates podrun creates pods, in the
// order in which 'kubectl get all' prints them.
var Workloads = []Type{
	{Kind: "ReplicationController", Names: []string{"replicationcontrollers", "replicationcontroller", "rc"}, Resource: "replicationcontroller",
		Headings: []string{"DESIRED", "CURRENT", "READY"}, Wide: selectorHeadings,
		Cells: func(o any, _ view.TableOptions) []string {
			rc := o.(*corev1.ReplicationController)
			return numbers(view.Desired(rc, rc.Spec.Replicas, rc.Status.Replicas), rc.Status.Replicas, rc.Status.ReadyReplicas)
		},
		Template: func(o any) (*corev1.PodSpec, string) {
			rc := o.(*corev1.ReplicationController)
			return &rc.Spec.Template.Spec, labels.FormatLabels(rc.Spec.Selector)
		}},
	{Kind: "DaemonSet", Names: []string{"daemonsets", "daemonset", "ds"}, Resource: "daemonset.apps",
		Headings: []string{"DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "NODE SELECTOR"}, Wide: selectorHeadings,
		Cells: func(o any, _ view.TableOptions) []string {
			ds := o.(*appsv1.DaemonSet)
			s := ds.Status
			return append(numbers(s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable),
				labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector))
		},
		Template: func(o any) (*corev1.PodSpec, string) {
			ds := o.(*appsv1.DaemonSet)
			return &ds.Spec.Template.Spec, metav1.FormatLabelSelector(ds.Spec.Selector)
		}},
	{Kind: "Deployment", Names: []string{"deployments", "deployment", "deploy"}, Resource: "deployment.apps",
		Headings: []string{"READY", "UP-TO-DATE", "AVAILABLE"}, Wide: selectorHeadings,
		Cells: func(o any, _ view.TableOptions) []string {
			d := o.(*appsv1.Deployment)
			s := d.Status
			return append([]string{view.Ready(s.ReadyReplicas, view.Desired(d, d.Spec.Replicas, s.Replicas))}, numbers(s.UpdatedReplicas, s.AvailableReplicas)...)
		},
		Template: func(o any) (*corev1.PodSpec, string) {
			d := o.(*appsv1.Deployment)
			return &d.Spec.Template.Spec, metav1.FormatLabelSelector(d.Spec.Selector)
		}},
	{Kind: "ReplicaSet", Names: []string{"replicasets", "replicaset", "rs"}, Resource: "replicaset.apps",
		Headings: []string{"DESIRED", "CURRENT", "READY"}, Wide: selectorHeadings,
		Cells: func(o any, _ view.TableOptions) []string {
			rs := o.(*appsv1.ReplicaSet)
			return numbers(view.Desired(rs, rs.Spec.Replicas, rs.Status.Replicas), rs.Status.Replicas, rs.Status.ReadyReplicas)
		},
		Template: func(o any) (*corev1.PodSpec, string) {
			rs := o.(*appsv1.ReplicaSet)
			return &rs.Spec.Template.Spec, metav1.FormatLabelSelector(rs.Spec.Selector)
		}},
	{Kind: "StatefulSet", Names: []string{"statefulsets", "statefulset", "sts"}, Resource: "statefulset.apps",
		Headings: []string{"READY"}, Wide: wideHeadings,
		Cells: func(o any, _ view.TableOptions) []string {
			set := o.(*appsv1.StatefulSet)
			return []string{view.Ready(set.Status.ReadyReplicas, view.Desired(set, set.Spec.Replicas, set.Status.Replicas))}
		},
		Template: func(o any) (*corev1.PodSpec, string) { return &o.(*appsv1.StatefulSet).Spec.Template.Spec, "" }},
	{Kind: "CronJob", Names: []string{"cronjobs", "cronjob", "cj"}, Resource: "cronjob.batch",
		Headings: []string{"SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST SCHEDULE"}, Wide: selectorHeadings,
		Cells: func(o any, table view.TableOptions) []string { return cronJobCells(o.(*batchv1.CronJob), table.Now) },
		Template: func(o any) (*corev1.PodSpec, string) {
			job := &o.(*batchv1.CronJob).Spec.JobTemplate.Spec
			return &job.Template.Spec, metav1.FormatLabelSelector(job.Selector)
		}},
	{Kind: "Job", Names: []string{"jobs", "job"}, Resource: "job.batch",
		Headings: []string{"STATUS", "COMPLETIONS", "DURATION"}, Wide: selectorHeadings,
		Cells: func(o any, table view.TableOptions) []string { return jobCells(o.(*batchv1.Job), table.Now) },
		Template: func(o any) (*corev1.PodSpec, string) {
			job := o.(*batchv1.Job)
			return &job.Spec.Template.Spec, metav1.FormatLabelSelector(job.Spec.Selector)
		}},
	{Kind: "PodTemplate", Names: []string{"podtemplates", "podtemplate"}, Resource: "podtemplate",
		Headings: []string{"CONTAINERS", "IMAGES", "POD LABELS"},
		Cells: func(o any, _ view.TableOptions) []string {
			t := o.(*corev1.PodTemplate).Template
			return []string{ContainerNames(&t.Spec), ContainerImages(&t.Spec), labels.FormatLabels(t.Labels)}
		}},
}

// ReferredTypes are the kinds that pods refer to.
var ReferredTypes = []Type{
	{Kind: "ConfigMap", Names: []string{"configmaps", "configmap", "cm"}, Resource: "configmap", Headings: []string{"DATA"},
		Cells: func(o any, _ view.TableOptions) []string {
			m := o.(*corev1.ConfigMap)
			return []string{strconv.Itoa(len(m.Data) + len(m.BinaryData))}
		}},
	{Kind: "Secret", Names: []string{"secrets", "secret"}, Resource: "secret", Headings: []string{"TYPE", "DATA"},
		Cells: func(o any, _ view.TableOptions) []string {
			s := o.(*corev1.Secret)
			return []string{string(s.Type), strconv.Itoa(len(s.Data))}
		}},
}

// networkTypes are the kinds of objects that belong to the pods' network.
var networkTypes = []Type{
	{Kind: Service, Names: []string{"services", "service", "svc"}, Resource: "service",
		Headings: []string{"TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)"}, Wide: []string{"SELECTOR"},
		Cells: func(o any, table view.TableOptions) []string {
			return view.ServiceCells(o.(*corev1.Service), table.Wide)
		},
		WideCells: func(o any) []string {
			return []string{view.OrNone(labels.FormatLabels(o.(*corev1.Service).Spec.Selector))}
		}},
	{Kind: SliceKind, Names: []string{"endpointslices", "endpointslice"}, Resource: "endpointslice.discovery.k8s.io",
		Headings: []string{"ADDRESSTYPE", "PORTS", "ENDPOINTS"},
		Cells:    func(o any, _ view.TableOptions) []string { return view.SliceCells(o.(*discoveryv1.EndpointSlice)) }},
}

// The kinds of networkTypes.
const (
	Service   = "Service"
	SliceKind = "EndpointSlice"
)

// Pod is the kind of pods when a user selects several kinds.
const Pod = "Pod"

// All are the kinds of kubectl's category all, which does not include ConfigMaps, Secrets
// and PodTemplates.
func All() []string {
	kinds := []string{Pod}
	for _, t := range Workloads {
		if t.Kind != "PodTemplate" {
			kinds = append(kinds, t.Kind)
		}
	}
	return slices.Insert(kinds, 1, Service)
}

// Of returns the type that a word names (cm, secrets, deployments.apps), or nil.
func Of(word string) *Type {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	for _, types := range [][]Type{Workloads, ReferredTypes, networkTypes} {
		for i := range types {
			if slices.Contains(types[i].Names, word) {
				return &types[i]
			}
		}
	}
	return nil
}

// Names returns the names of the types that get prints.
func Names() []string {
	names := slices.Clone(PodTypes)
	for _, t := range slices.Concat(Workloads, ReferredTypes, networkTypes) {
		names = append(names, t.Names...)
	}
	return names
}

// WorkloadKind returns the kind of workload that a word names (deploy, job.batch), or "".
func WorkloadKind(word string) string {
	if t := Of(word); t != nil && !t.Referred() && !t.Network() {
		return t.Kind
	}
	return ""
}

// Referred reports whether pods refer to objects of this kind.
func (t *Type) Referred() bool {
	return slices.ContainsFunc(ReferredTypes, func(r Type) bool { return r.Kind == t.Kind })
}

// Network reports whether objects of this kind are part of the pods' network.
func (t *Type) Network() bool {
	return slices.ContainsFunc(networkTypes, func(r Type) bool { return r.Kind == t.Kind })
}

func numbers(values ...int32) (out []string) {
	for _, n := range values {
		out = append(out, strconv.Itoa(int(n)))
	}
	return out
}

// jobCells returns the cells of kubectl's table (printJob in pkg/printers/internalversion).
func jobCells(job *batchv1.Job, now time.Time) []string {
	took := ""
	switch start, end := job.Status.StartTime, job.Status.CompletionTime; {
	case start == nil:
	case end == nil:
		took = duration.HumanDuration(now.Sub(start.Time))
	default:
		took = duration.HumanDuration(end.Sub(start.Time))
	}
	completions := int32(1)
	if job.Spec.Completions != nil {
		completions = *job.Spec.Completions
	}
	return []string{JobStatus(job), view.Ready(job.Status.Succeeded, completions), took}
}

// JobStatus returns the state of a Job as kubectl prints it.
func JobStatus(job *batchv1.Job) string {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if lifecycle.JobHas(job, kind) {
			return string(kind)
		}
	}
	if job.DeletionTimestamp != nil {
		return "Terminating"
	}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if lifecycle.JobHas(job, kind) {
			return string(kind)
		}
	}
	return "Running"
}

func cronJobCells(o *batchv1.CronJob, now time.Time) []string {
	zone, suspended, last := "", "<unset>", ""
	if o.Spec.TimeZone != nil {
		zone = *o.Spec.TimeZone
	}
	if o.Spec.Suspend != nil {
		suspended = map[bool]string{true: "True", false: "False"}[*o.Spec.Suspend]
	}
	if o.Status.LastScheduleTime != nil {
		last = duration.HumanDuration(now.Sub(o.Status.LastScheduleTime.Time))
	}
	return []string{o.Spec.Schedule, view.OrNone(zone), suspended, strconv.Itoa(len(o.Status.Active)), view.OrNone(last)}
}

func ContainerNames(spec *corev1.PodSpec) string {
	var out []string
	for _, c := range spec.Containers {
		out = append(out, c.Name)
	}
	return strings.Join(out, ",")
}

func ContainerImages(spec *corev1.PodSpec) string {
	var out []string
	for _, c := range spec.Containers {
		out = append(out, c.Image)
	}
	return strings.Join(out, ",")
}

// PodTypes are kubectl's names of the pod resource: plural, singular and short. As in kubectl,
// case is ignored.
var PodTypes = []string{"pod", "pods", "po"}

// ClaimTypes are kubectl's names for claims.
var ClaimTypes = []string{"persistentvolumeclaims", "persistentvolumeclaim", "pvc"}
