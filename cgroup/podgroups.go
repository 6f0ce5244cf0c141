package cgroup

import (
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// PodGroup is the cgroup of a pod.
type PodGroup struct {
	UID string
	// Made is the creation time.
	Made time.Time
	// RootDir is the root directory that is recorded on the group. It is "" if none is recorded.
	RootDir string
	// InUse is true if the group has processes.
	InUse bool
}

// ReadPodGroups returns the cgroups of pods that have podrun's extended attribute.
func ReadPodGroups(c host.Cgroup, s nodeconfig.Settings) []PodGroup {
	found := map[string]PodGroup{}
	p := Leftovers("", c, s)
	for uid, dir := range p.markedPods() {
		g := PodGroup{UID: uid, RootDir: rootDirOf(dir), InUse: found[uid].InUse}
		if g.RootDir == "" {
			g.RootDir = found[uid].RootDir
		}
		if info, err := os.Lstat(dir); err == nil {
			g.Made = info.ModTime()
		}
		pids, err := processes(dir)
		g.InUse = g.InUse || err != nil || len(pids) > 0
		found[uid] = g
	}
	var out []PodGroup
	for _, g := range found {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b PodGroup) int { return strings.Compare(a.UID, b.UID) })
	return out
}

// markedPods yields the pod cgroups that have podrun's extended attribute: the UID of the pod
// and the directory of the group. A UID occurs once per hierarchy.
func (p Plan) markedPods() iter.Seq2[string, string] {
	h := p.hierarchies()
	return func(yield func(uid, dir string) bool) {
		for _, shared := range p.Shared {
			for _, parent := range h.dirs(shared) {
				// An error means that the directory was never created.
				entries, _ := os.ReadDir(parent)
				for _, e := range entries {
					uid, ok := h.uidOf(e.Name())
					dir := filepath.Join(parent, e.Name())
					if ok && e.IsDir() && marked(dir) && !yield(uid, dir) {
						return
					}
				}
			}
		}
	}
}
