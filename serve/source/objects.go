package source

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// count returns the number of objects; 0 for nil.
func count(o *manifest.Objects) int {
	if o == nil {
		return 0
	}
	return len(o.Pods) + len(o.ConfigMaps) + len(o.Secrets) + len(o.Claims) + len(o.Volumes) + len(o.Services) + len(o.RuntimeClasses) + len(o.PriorityClasses) + len(o.Jobs) + len(o.CronJobs)
}

func keyOf(p *manifest.Pod) string { return p.Object.Namespace + "/" + p.Object.Name }

// refuseJobs removes the Jobs and CronJobs that use features that podrun does not support: podrun
// would not run them as their author intends.
func refuseJobs(o *manifest.Objects) problem.List {
	var out problem.List
	refused := func(kind, at string, template *manifest.Pod, spec *batchv1.JobSpec) bool {
		field := manifest.UnsupportedByJobs(spec)
		if field == "" {
			return false
		}
		pr := template.Locate(problem.Problem{Reason: "FieldValueNotSupported", Message: at + field + " is not supported: podrun runs the pods of a Job one after the other",
			Hint: "remove the field, or the " + kind})
		pr.Object = kind + " " + keyOf(template)
		out = append(out, pr)
		return true
	}
	o.Jobs = slices.DeleteFunc(o.Jobs, func(j manifest.Job) bool {
		if len(j.Object.Name) <= manifest.MaxJobName {
			return refused("Job", "", &j.Template, &j.Object.Spec)
		}
		pr := j.Template.Locate(problem.Problem{Reason: "FieldValueInvalid", Message: fmt.Sprintf("metadata.name has more than %d characters", manifest.MaxJobName), Hint: "use a shorter name"})
		pr.Object = "Job " + keyOf(&j.Template)
		out = append(out, pr)
		return true
	})
	o.CronJobs = slices.DeleteFunc(o.CronJobs, func(c manifest.CronJob) bool {
		return refused("CronJob", "spec.jobTemplate.", &c.Template, &c.Object.Spec.JobTemplate.Spec)
	})
	return out
}
