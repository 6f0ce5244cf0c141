package source

import (
	"slices"
	"strings"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// count returns the number of objects; 0 for nil.
func count(o *manifest.Objects) int {
	if o == nil {
		return 0
	}
	return len(o.Pods) + len(o.ConfigMaps) + len(o.Secrets) + len(o.Claims) + len(o.Volumes) + len(o.RuntimeClasses) + len(o.PriorityClasses)
}

func keyOf(p *manifest.Pod) string { return p.Object.Namespace + "/" + p.Object.Name }

// refuseCronJobs removes the pods of CronJobs: podrun would run them immediately, because it
// has no scheduler.
func refuseCronJobs(o *manifest.Objects) problem.List {
	var out problem.List
	o.Pods = slices.DeleteFunc(o.Pods, func(p manifest.Pod) bool {
		if !strings.HasPrefix(p.From, "CronJob ") {
			return false
		}
		pr := p.Locate(problem.Problem{Reason: "FieldValueNotSupported", Message: "podrun serve does not run CronJobs",
			Hint: "start `podrun run` from a systemd timer, and remove the CronJob from the file"})
		pr.Object = "CronJob " + keyOf(&p)
		out = append(out, pr)
		return true
	})
	return out
}
