package cmd

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

// objectType describes a kind other than Pod whose objects podrun keeps as the user applied
// them. It has kubectl's names for the type, and the columns of its table.
type objectType struct {
	kind     string
	names    []string // plural, singular and short
	resource string   // as -o name prints it: deployment.apps
	headings []string
	// cells returns the cells of a row after NAME and before AGE.
	cells func(o any, table view.TableOptions) []string
	// wide are the headings that -o wide adds. wideCells returns their cells; for workloads it is nil.
	wide      []string
	wideCells func(o any) []string
	// template returns the pod template and the selector of a workload; nil for other kinds.
	template func(o any) (*corev1.PodSpec, string)
}

// Headings that -o wide adds for workloads.
var (
	wideHeadings     = []string{"CONTAINERS", "IMAGES"}
	selectorHeadings = []string{"CONTAINERS", "IMAGES", "SELECTOR"}
)

// workloadTypes are the kinds of workloads from whose templates podrun creates pods, in the
// order in which 'kubectl get all' prints them.
var workloadTypes = []objectType{
	{kind: "ReplicationController", names: []string{"replicationcontrollers", "replicationcontroller", "rc"}, resource: "replicationcontroller",
		headings: []string{"DESIRED", "CURRENT", "READY"}, wide: selectorHeadings,
		cells: func(o any, _ view.TableOptions) []string {
			rc := o.(*corev1.ReplicationController)
			return numbers(view.Desired(rc, rc.Spec.Replicas, rc.Status.Replicas), rc.Status.Replicas, rc.Status.ReadyReplicas)
		},
		template: func(o any) (*corev1.PodSpec, string) {
			rc := o.(*corev1.ReplicationController)
			return &rc.Spec.Template.Spec, labels.FormatLabels(rc.Spec.Selector)
		}},
	{kind: "DaemonSet", names: []string{"daemonsets", "daemonset", "ds"}, resource: "daemonset.apps",
		headings: []string{"DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "NODE SELECTOR"}, wide: selectorHeadings,
		cells: func(o any, _ view.TableOptions) []string {
			ds := o.(*appsv1.DaemonSet)
			s := ds.Status
			return append(numbers(s.DesiredNumberScheduled, s.CurrentNumberScheduled, s.NumberReady, s.UpdatedNumberScheduled, s.NumberAvailable),
				labels.FormatLabels(ds.Spec.Template.Spec.NodeSelector))
		},
		template: func(o any) (*corev1.PodSpec, string) {
			ds := o.(*appsv1.DaemonSet)
			return &ds.Spec.Template.Spec, metav1.FormatLabelSelector(ds.Spec.Selector)
		}},
	{kind: "Deployment", names: []string{"deployments", "deployment", "deploy"}, resource: "deployment.apps",
		headings: []string{"READY", "UP-TO-DATE", "AVAILABLE"}, wide: selectorHeadings,
		cells: func(o any, _ view.TableOptions) []string {
			d := o.(*appsv1.Deployment)
			s := d.Status
			return append([]string{view.Ready(s.ReadyReplicas, view.Desired(d, d.Spec.Replicas, s.Replicas))}, numbers(s.UpdatedReplicas, s.AvailableReplicas)...)
		},
		template: func(o any) (*corev1.PodSpec, string) {
			d := o.(*appsv1.Deployment)
			return &d.Spec.Template.Spec, metav1.FormatLabelSelector(d.Spec.Selector)
		}},
	{kind: "ReplicaSet", names: []string{"replicasets", "replicaset", "rs"}, resource: "replicaset.apps",
		headings: []string{"DESIRED", "CURRENT", "READY"}, wide: selectorHeadings,
		cells: func(o any, _ view.TableOptions) []string {
			rs := o.(*appsv1.ReplicaSet)
			return numbers(view.Desired(rs, rs.Spec.Replicas, rs.Status.Replicas), rs.Status.Replicas, rs.Status.ReadyReplicas)
		},
		template: func(o any) (*corev1.PodSpec, string) {
			rs := o.(*appsv1.ReplicaSet)
			return &rs.Spec.Template.Spec, metav1.FormatLabelSelector(rs.Spec.Selector)
		}},
	{kind: "StatefulSet", names: []string{"statefulsets", "statefulset", "sts"}, resource: "statefulset.apps",
		headings: []string{"READY"}, wide: wideHeadings,
		cells: func(o any, _ view.TableOptions) []string {
			set := o.(*appsv1.StatefulSet)
			return []string{view.Ready(set.Status.ReadyReplicas, view.Desired(set, set.Spec.Replicas, set.Status.Replicas))}
		},
		template: func(o any) (*corev1.PodSpec, string) { return &o.(*appsv1.StatefulSet).Spec.Template.Spec, "" }},
	{kind: "CronJob", names: []string{"cronjobs", "cronjob", "cj"}, resource: "cronjob.batch",
		headings: []string{"SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST SCHEDULE"}, wide: selectorHeadings,
		cells: func(o any, table view.TableOptions) []string { return cronJobCells(o.(*batchv1.CronJob), table.Now) },
		template: func(o any) (*corev1.PodSpec, string) {
			job := &o.(*batchv1.CronJob).Spec.JobTemplate.Spec
			return &job.Template.Spec, metav1.FormatLabelSelector(job.Selector)
		}},
	{kind: "Job", names: []string{"jobs", "job"}, resource: "job.batch",
		headings: []string{"STATUS", "COMPLETIONS", "DURATION"}, wide: selectorHeadings,
		cells: func(o any, table view.TableOptions) []string { return jobCells(o.(*batchv1.Job), table.Now) },
		template: func(o any) (*corev1.PodSpec, string) {
			job := o.(*batchv1.Job)
			return &job.Spec.Template.Spec, metav1.FormatLabelSelector(job.Spec.Selector)
		}},
	{kind: "PodTemplate", names: []string{"podtemplates", "podtemplate"}, resource: "podtemplate",
		headings: []string{"CONTAINERS", "IMAGES", "POD LABELS"},
		cells: func(o any, _ view.TableOptions) []string {
			t := o.(*corev1.PodTemplate).Template
			return []string{containerNames(&t.Spec), containerImages(&t.Spec), labels.FormatLabels(t.Labels)}
		}},
}

// referredTypes are the kinds that pods refer to.
var referredTypes = []objectType{
	{kind: "ConfigMap", names: []string{"configmaps", "configmap", "cm"}, resource: "configmap", headings: []string{"DATA"},
		cells: func(o any, _ view.TableOptions) []string {
			m := o.(*corev1.ConfigMap)
			return []string{strconv.Itoa(len(m.Data) + len(m.BinaryData))}
		}},
	{kind: "Secret", names: []string{"secrets", "secret"}, resource: "secret", headings: []string{"TYPE", "DATA"},
		cells: func(o any, _ view.TableOptions) []string {
			s := o.(*corev1.Secret)
			return []string{string(s.Type), strconv.Itoa(len(s.Data))}
		}},
}

// networkTypes are the kinds of objects that belong to the pods' network.
var networkTypes = []objectType{
	{kind: serviceKind, names: []string{"services", "service", "svc"}, resource: "service",
		headings: []string{"TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)"}, wide: []string{"SELECTOR"},
		cells: func(o any, table view.TableOptions) []string {
			return view.ServiceCells(o.(*corev1.Service), table.Wide)
		},
		wideCells: func(o any) []string {
			return []string{view.OrNone(labels.FormatLabels(o.(*corev1.Service).Spec.Selector))}
		}},
	{kind: sliceKind, names: []string{"endpointslices", "endpointslice"}, resource: "endpointslice.discovery.k8s.io",
		headings: []string{"ADDRESSTYPE", "PORTS", "ENDPOINTS"},
		cells:    func(o any, _ view.TableOptions) []string { return view.SliceCells(o.(*discoveryv1.EndpointSlice)) }},
}

// The kinds of networkTypes.
const (
	serviceKind = "Service"
	sliceKind   = "EndpointSlice"
)

// podKind is the kind of pods when a user selects several kinds.
const podKind = "Pod"

// allKinds are the kinds of kubectl's category all, which does not include ConfigMaps, Secrets
// and PodTemplates.
func allKinds() []string {
	kinds := []string{podKind}
	for _, t := range workloadTypes {
		if t.kind != "PodTemplate" {
			kinds = append(kinds, t.kind)
		}
	}
	return slices.Insert(kinds, 1, serviceKind)
}

// typeOf returns the type that a word names (cm, secrets, deployments.apps), or nil.
func typeOf(word string) *objectType {
	word, _, _ = strings.Cut(strings.ToLower(word), ".")
	for _, types := range [][]objectType{workloadTypes, referredTypes, networkTypes} {
		for i := range types {
			if slices.Contains(types[i].names, word) {
				return &types[i]
			}
		}
	}
	return nil
}

// typeNames returns the names of the types that get prints.
func typeNames() []string {
	names := slices.Clone(podTypes)
	for _, t := range slices.Concat(workloadTypes, referredTypes, networkTypes) {
		names = append(names, t.names...)
	}
	return names
}

// workloadKind returns the kind of workload that a word names (deploy, job.batch), or "".
func workloadKind(word string) string {
	if t := typeOf(word); t != nil && !t.referred() && !t.network() {
		return t.kind
	}
	return ""
}

// referred reports whether pods refer to objects of this kind.
func (t *objectType) referred() bool {
	return slices.ContainsFunc(referredTypes, func(r objectType) bool { return r.kind == t.kind })
}

// network reports whether objects of this kind are part of the pods' network.
func (t *objectType) network() bool {
	return slices.ContainsFunc(networkTypes, func(r objectType) bool { return r.kind == t.kind })
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
	return []string{jobStatus(job), view.Ready(job.Status.Succeeded, completions), took}
}

// jobStatus returns the state of a Job as kubectl prints it.
func jobStatus(job *batchv1.Job) string {
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

func containerNames(spec *corev1.PodSpec) string {
	var out []string
	for _, c := range spec.Containers {
		out = append(out, c.Name)
	}
	return strings.Join(out, ",")
}

func containerImages(spec *corev1.PodSpec) string {
	var out []string
	for _, c := range spec.Containers {
		out = append(out, c.Image)
	}
	return strings.Join(out, ",")
}
