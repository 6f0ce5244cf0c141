package cgroup

import (
	"fmt"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

// ReadHolders returns the cgroups of pods, by UID, that podruns with other root directories
// have, and that directory: empty for an older podrun, which did not note its own and whose
// processes run in the cgroup. Known are the pods that this root directory has. An unmarked
// cgroup has no holder.
func ReadHolders(c host.Cgroup, s nodeconfig.Settings, known func(uid string) bool) map[string]string {
	out := map[string]string{}
	p := Leftovers("", c, s)
	for uid, dir := range p.markedPods() {
		if known(uid) {
			continue
		}
		if root := rootDirOf(dir); root != "" && root != p.RootDir {
			out[uid] = root
		} else if root == "" && out[uid] == "" {
			if pids, err := processes(dir); err != nil || len(pids) > 0 {
				out[uid] = ""
			}
		}
	}
	return out
}

// refusal is the error of a pod whose cgroup is that of a pod of another root directory.
func (p Plan) refusal(g Group) error {
	owner := p.ownerOf(g)
	return &problem.Error{Kind: problem.Refused, Object: "cgroup " + g.Path,
		Err:  fmt.Errorf("it is the cgroup of a pod of the root directory %s", owner),
		Hint: "remove metadata.uid from the manifest, or delete the other pod with --root-dir " + owner}
}
