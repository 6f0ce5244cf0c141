package prepare

import (
	"fmt"

	"github.com/podrun/podrun/internal/problem"
)

// groupProblem refuses a new pod whose cgroup another pod of the same UID has. That one has
// another root directory and may have another runtime, so that no list of pods contains it:
// both would be in one cgroup, and deleting one would kill the other. Generated is true if
// the manifest has no UID.
func (p *Plan) groupProblem(holders map[string]string, generated bool) problem.List {
	dir, held := holders[p.ID.UID]
	if !held {
		return nil
	}
	of, remove := "of the root directory "+dir, "delete that pod with --root-dir "+dir
	if dir == "" {
		of, remove = "of an older podrun with another root directory", "delete that pod with its --root-dir"
	}
	hint := "remove metadata.uid from the manifest: podrun generates one; or " + remove
	if generated {
		hint = remove + ", or set another UID in metadata.uid"
	}
	return problem.List{{Object: "Pod " + p.ID.String(), Field: "metadata.uid", Reason: "AlreadyExists",
		Message: fmt.Sprintf("the cgroup of UID %q is that of a pod %s", p.ID.UID, of), Hint: hint}}
}
