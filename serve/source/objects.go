package source

import (
	"slices"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// count returns the number of objects; 0 for nil.
func count(o *manifest.Objects) int {
	if o == nil {
		return 0
	}
	return len(o.Pods) + len(o.ConfigMaps) + len(o.Secrets) + len(o.Claims) + len(o.Volumes) + len(o.Services) + len(o.RuntimeClasses) + len(o.PriorityClasses) + len(o.Jobs) + len(o.CronJobs) + len(o.Workloads)
}

func keyOf(p *manifest.Pod) string { return p.Object.Namespace + "/" + p.Object.Name }

// refuseJobs removes the Jobs and CronJobs with features that podrun does not support, and would run
// in another way than their author intends. It also returns warnings about the others.
func refuseJobs(o *manifest.Objects) (out problem.List) {
	refused := func(problems problem.List) bool {
		out = append(out, problems...)
		return len(problems.Errors()) > 0
	}
	o.Jobs = slices.DeleteFunc(o.Jobs, func(j manifest.Job) bool { return refused(j.Problems()) })
	o.CronJobs = slices.DeleteFunc(o.CronJobs, func(c manifest.CronJob) bool { return refused(c.Problems()) })
	return out
}
