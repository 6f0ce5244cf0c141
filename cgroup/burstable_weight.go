package cgroup

import (
	"os"
	"path/filepath"
)

// updateBurstableWeight sets the weight of the shared Burstable cgroup, if the cgroup exists. It
// computes the weight from the requests that are recorded on the pod cgroups in it. The plan's weight
// may be outdated, because other pods may have started or ended since. If a pod cgroup has no recorded
// requests, updateBurstableWeight sets the plan's weight, but only if planned is true. The caller must
// hold the lock.
func (p Plan) updateBurstableWeight(planned bool) error {
	h := p.hierarchies()
	for _, g := range p.Shared {
		weighs := g.Resources.CPUShares > 0 || g.Resources.CPUWeight > 0
		if !isBurstable(g) || !weighs || !exists(filepath.Join(h.cpuMount(), g.Path)) {
			continue
		}
		milli, known, err := h.requested(g)
		if err != nil {
			return failed(g, "sum the CPU requests of its pods", err)
		}
		if known {
			g.Resources.setWeight(p.Version, milli)
		}
		if h.holds(g) || !known && !planned {
			continue
		}
		if err := h.set(g); err != nil {
			return failed(g, "set its weight", err)
		}
	}
	return nil
}

// requested returns the sum of the requests that are recorded on the groups inside a group. The
// result known is false if one of these groups has no recorded requests.
func (h hierarchies) requested(g Group) (milli int64, known bool, err error) {
	dir := filepath.Join(h.cpuMount(), g.Path)
	entries, err := os.ReadDir(dir)
	if err != nil && !noGroup(err) {
		return 0, false, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		n, ok := recordedMilliCPU(filepath.Join(dir, e.Name()))
		if !ok {
			return 0, false, nil
		}
		milli += n
	}
	return milli, true, nil
}

func isBurstable(g Group) bool { return g.Name[len(g.Name)-1] == burstable }
