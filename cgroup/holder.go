package cgroup

import (
	"fmt"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
)

// ReadHolders returns the pods whose cgroups belong to another root directory. It maps the UID of
// each pod to this directory. For a cgroup of an older version of podrun, which did not record the
// directory, the directory is ""; ReadHolders includes such a cgroup only if the cgroup has
// processes. The function known reports whether a pod belongs to this root directory. ReadHolders
// omits cgroups without the extended attributes.
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

// refusal returns the error for a pod whose cgroup belongs to a pod of another root directory.
func (p Plan) refusal(g Group) error {
	owner := p.ownerOf(g)
	return &problem.Error{Kind: problem.Refused, Object: "cgroup " + g.Path,
		Err:  fmt.Errorf("it is the cgroup of a pod in the root directory %s", owner),
		Hint: "remove metadata.uid from the manifest, or delete the other pod with --root-dir " + owner}
}
