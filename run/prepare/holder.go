package prepare

import (
	"fmt"

	"github.com/podrun/podrun/internal/problem"
)

// groupProblem refuses a new pod if its cgroup belongs to a pod that has the same UID in another
// root directory. That pod may use another runtime, so no list of pods includes it. Both pods would
// be in one cgroup, and deleting one pod would kill the processes of the other. The argument
// generated is true if podrun generated the UID because the manifest has none.
func (p *Plan) groupProblem(holders map[string]string, generated bool) problem.List {
	dir, held := holders[p.ID.UID]
	if !held {
		return nil
	}
	of, remove := "in the root directory "+dir, "delete that pod with --root-dir "+dir
	if dir == "" {
		of, remove = "that an older podrun version created in another root directory", "delete that pod with its --root-dir"
	}
	hint := "remove metadata.uid from the manifest, so that podrun generates a UID, or " + remove
	if generated {
		hint = remove + ", or set another UID in metadata.uid"
	}
	return problem.List{{Object: "Pod " + p.ID.String(), Field: "metadata.uid", Reason: "AlreadyExists",
		Message: fmt.Sprintf("a pod %s already uses the UID %q and its cgroup", of, p.ID.UID), Hint: hint}}
}
