package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchdefaults "k8s.io/kubernetes/pkg/apis/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest/input"
)

// ReasonTemplate is the reason of the notice that podrun runs one pod from a template.
const ReasonTemplate = "PodTemplate"

// templateNotes are the notices for kinds of workloads whose other fields podrun ignores, not only
// the number of replicas.
var templateNotes = map[string]string{
	"PodTemplate": "podrun runs one pod from this PodTemplate",
	"Job":         "podrun runs one pod from the template of this Job once; backoffLimit, completions, activeDeadlineSeconds and ttlSecondsAfterFinished of the Job apply only in a manifest directory of 'podrun serve'",
	"CronJob":     "podrun ignores the schedule of this CronJob: it runs one pod from the template once",
}

// hasController reports whether podrun serve implements the controller of a kind.
func hasController(kind string) bool { return kind == "Job" || kind == "CronJob" }

// namesOf returns the kind of the objects among which the name of an object of the given kind must
// be unique. For Jobs and CronJobs, this is not Pod, because their pods may get other names
// (separateJobs).
func namesOf(kind string) string {
	if hasController(kind) {
		return kind
	}
	return "Pod"
}

// controlled converts the last pod, which was created from the template of a Job or CronJob, back
// to that object. If takePod refused the pod, there is nothing to convert.
func (l *loader) controlled(obj any) {
	n := len(l.objects.Pods) - 1
	if n < 0 {
		return
	}
	p := l.objects.Pods[n]
	meta := metav1.ObjectMeta{Namespace: p.Object.Namespace, Name: p.Object.Name}
	switch o := obj.(type) {
	case *batchv1.Job:
		if p.From != "Job "+meta.Name {
			return
		}
		meta.Labels = o.Labels
		meta.Annotations = o.Annotations
		o.TypeMeta = typeMeta("batch/v1", "Job")
		o.ObjectMeta = meta
		o.Status = batchv1.JobStatus{}
		l.objects.Jobs = append(l.objects.Jobs, Job{Object: o, Template: p})
	case *batchv1.CronJob:
		if p.From != "CronJob "+meta.Name {
			return
		}
		meta.Labels = o.Labels
		meta.Annotations = o.Annotations
		o.TypeMeta = typeMeta("batch/v1", "CronJob")
		o.ObjectMeta = meta
		o.Status = batchv1.CronJobStatus{}
		l.objects.CronJobs = append(l.objects.CronJobs, CronJob{Object: o, Template: p})
	}
	l.objects.Pods = l.objects.Pods[:n]
}

// separateJobs gives the pod of a Job or CronJob another name if another object of the input has a
// pod with that name. In a cluster, a Deployment and a Job may have the same name.
func (l *loader) separateJobs() {
	taken := map[string]bool{}
	for i := range l.objects.Pods {
		if p := &l.objects.Pods[i]; !hasController(p.Definition.Kind) {
			taken[qualified(&p.Object.ObjectMeta)] = true
		}
	}
	for i := range l.objects.Pods {
		p := &l.objects.Pods[i]
		if !hasController(p.Definition.Kind) {
			continue
		}
		name := qualified(&p.Object.ObjectMeta)
		if taken[name] {
			p.Object.Name = JobPodName(p.Definition.Kind, p.Object.Name)
			note := p.Locate(problem.Problem{Reason: "PodName",
				Message: fmt.Sprintf("another object already has a pod named %s: the pod of this %s is named %s", name, p.Definition.Kind, p.Object.Name),
				Warning: true})
			note.Object = p.Definition.Kind + " " + name
			name = qualified(&p.Object.ObjectMeta)
			if taken[name] {
				note.Reason = "FieldValueDuplicate"
				note.Message = fmt.Sprintf("other objects already have pods named %s and %s", note.Object[len(p.Definition.Kind)+1:], name)
				note.Warning = false
				note.Field = "metadata.name"
				note.Hint = "rename one of them"
			}
			l.add(note)
		}
		taken[name] = true
	}
}

// JobPodName returns the name of a Job's or CronJob's pod if another object of the same input has a
// pod with the object's name.
func JobPodName(kind, name string) string {
	if !hasController(kind) {
		return name
	}
	return generated(name, "-"+strings.ToLower(kind))
}

// WithDefaults returns a copy of a Job with the API's defaults.
func WithDefaults(j *batchv1.Job) *batchv1.Job {
	j = j.DeepCopy()
	batchdefaults.SetObjectDefaults_Job(j)
	return j
}

// CronJobWithDefaults returns a copy of a CronJob with the API's defaults.
func CronJobWithDefaults(c *batchv1.CronJob) *batchv1.CronJob {
	c = c.DeepCopy()
	batchdefaults.SetObjectDefaults_CronJob(c)
	// The API server sets the defaults of the template when the Job is created.
	job := WithDefaults(&batchv1.Job{Spec: c.Spec.JobTemplate.Spec})
	c.Spec.JobTemplate.Spec = job.Spec
	return c
}

// ReplacesJob reports whether podrun must replace a Job to give it another definition, because the
// API does not allow the change. It compares both with the API's defaults.
func ReplacesJob(old, updated *batchv1.Job) bool {
	a, b := WithDefaults(old), WithDefaults(updated)
	for _, j := range []*batchv1.Job{a, b} {
		s := &j.Spec
		s.Suspend = nil
		s.Parallelism = nil
		s.BackoffLimit = nil
		s.ActiveDeadlineSeconds = nil
		s.TTLSecondsAfterFinished = nil
	}
	return !sameJSON(a.Spec, b.Spec)
}

// MaxJobName is the maximum length of a Job's name. The name is also a label of the Job's pods, so the API
// refuses longer names.
const MaxJobName = 63

// Problems returns an error for each field that podrun serve does not support, and a warning for
// each field that has no effect.
func (j Job) Problems() problem.List {
	return jobProblems(&j.Object.Spec, "spec", "Job", j.Template)
}

// Problems is like Job.Problems.
func (c CronJob) Problems() problem.List {
	return jobProblems(&c.Object.Spec.JobTemplate.Spec, "spec.jobTemplate.spec", "CronJob", c.Template)
}

// jobProblems implements Problems. at is the path of the Job's spec in the object.
func jobProblems(s *batchv1.JobSpec, at, kind string, template Pod) (out problem.List) {
	object := kind + " " + qualified(&template.Object.ObjectMeta)
	template.item.rename = nil // the fields are those of the object, not of its pod
	add := func(field string, pr problem.Problem) {
		pr.Field = at + "." + field
		pr = template.Locate(pr)
		pr.Object = object
		out = append(out, pr)
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"backoffLimitPerIndex", s.BackoffLimitPerIndex != nil},
		{"successPolicy", s.SuccessPolicy != nil},
		{"managedBy", s.ManagedBy != nil && *s.ManagedBy != batchv1.JobControllerName},
	} {
		if f.set {
			add(f.name, problem.Problem{Reason: "FieldValueNotSupported",
				Message: "podrun serve does not support this field", Hint: "remove the field, or the " + kind})
		}
	}
	if n := ptr.Deref(s.Parallelism, 1); n > 1 && (s.Completions == nil || *s.Completions > 1) {
		add("parallelism", problem.Problem{Reason: "FieldIgnored",
			Message: fmt.Sprintf("podrun runs the pods of a Job one after the other: %d has the same effect as 1", n),
			Warning: true})
	}
	return out
}

// podsOf are the options of Load for a Job that podrun has stored.
var podsOf = Options{Validate: Ignore}

// PodOfJob returns a pod of a Job with this name, and notices about the changes that podrun makes to
// it. It reads the Job like a file, so that a newer podrun applies its own defaults.
func PodOfJob(j *batchv1.Job, name string) (Pod, problem.List) {
	j = j.DeepCopy()
	j.TypeMeta = typeMeta("batch/v1", "Job")
	j.Status = batchv1.JobStatus{}
	data, err := json.Marshal(j)
	if err != nil {
		return Pod{}, problem.List{{Object: "Job " + j.Namespace + "/" + j.Name, Message: err.Error()}}
	}
	o := podsOf
	o.Namespace = j.Namespace
	objects, problems := Load([]input.Source{{Name: "Job " + j.Namespace + "/" + j.Name, Data: data}}, o)
	problems = slices.DeleteFunc(problems, func(p problem.Problem) bool { return p.Reason == ReasonTemplate })
	if len(problems.Errors()) > 0 || len(objects.Pods) != 1 {
		return Pod{}, problems
	}
	p := objects.Pods[0]
	p.Object.Name = name
	return p, problems
}
