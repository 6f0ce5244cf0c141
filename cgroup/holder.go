package cgroup

import (
	"fmt"
	"slices"

	"github.com/podrun/podrun/internal/problem"
)

// ReadHolder reports which podrun holds the cgroup of a pod that this root directory does
// not have yet: one with another root directory, or, with an empty rootDir, an older podrun
// that did not note its own, whose processes run in it. An unmarked cgroup has no holder.
func ReadHolder(p Plan) (rootDir string, held bool, err error) {
	for _, g := range p.Pods {
		if owner := p.ownerOf(g); owner != "" {
			if p.foreign(g) {
				return owner, true, nil
			}
			continue
		}
		dirs := p.dirs(g)
		if !slices.ContainsFunc(dirs, marked) {
			continue
		}
		for _, dir := range dirs {
			pids, err := processes(dir)
			if err != nil {
				return "", false, failed(g, "list its processes", err)
			}
			if len(pids) > 0 {
				return "", true, nil
			}
		}
	}
	return "", false, nil
}

// refusal is the error of a pod whose cgroup is that of a pod of another root directory.
func (p Plan) refusal(g Group) error {
	owner := p.ownerOf(g)
	return &problem.Error{Kind: problem.Refused, Object: "cgroup " + g.Path,
		Err:  fmt.Errorf("it is the cgroup of a pod of the root directory %s", owner),
		Hint: "remove metadata.uid from the manifest, or delete the other pod with --root-dir " + owner}
}
