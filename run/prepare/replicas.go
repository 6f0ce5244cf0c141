package prepare

import (
	"fmt"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
)

// replicaProblem refuses a pod that would replace a replica of another workload, or a replica that
// would replace another pod. A user who increases the replicas of a workload does not know the names
// of all pods on this host.
func (t Target) replicaProblem(in Input, p manifest.Pod) problem.List {
	for _, was := range in.Existing {
		if was.ID.Namespace != p.Object.Namespace || was.ID.Name != p.Object.Name || was.Ending || was.Pod == nil {
			continue
		}
		is := t.definition(p)
		other := manifest.OtherWorkload(p.Object.Name, was.Made.Definition, is)
		if other == "" {
			continue
		}
		hint := "rename this Pod, or scale that workload"
		if name := is.WorkloadName(p.Object.Name); name != p.Object.Name {
			hint = fmt.Sprintf("delete that pod, rename the %s, or request fewer replicas", is.Kind)
		}
		return problem.List{{
			Field:   "metadata.name",
			Reason:  "AlreadyExists",
			Message: fmt.Sprintf("a pod with the name %s exists, and %s defines it", p.Object.Name, other),
			Hint:    hint,
		}}
	}
	return nil
}
