package cgroup

import "path/filepath"

// Usage is what a pod's control group uses.
type Usage struct {
	Memory    int64 // bytes of the working set: without file pages that were not used lately
	Processes int64 // and threads; 0 where the pids controller is missing
}

// ReadUsage reads what the pod's control group uses, as the kubelet counts it. It is
// false where the pod has no group, or its memory is not accounted.
func ReadUsage(p Plan) (Usage, bool) {
	memory, current, inactive := p.Mounts["memory"], "memory.usage_in_bytes", "total_inactive_file"
	pids := p.Mounts["pids"]
	if p.Version == 2 {
		memory, current, inactive = p.Mounts[""], "memory.current", "inactive_file"
		pids = memory
	}
	for _, g := range p.Pods {
		dir := filepath.Join(memory, g.Path)
		used := readCount(filepath.Join(dir, current))
		if memory == "" || used == nil {
			continue
		}
		out := Usage{Memory: int64(workingSet(*used, dir, inactive))}
		if pids != "" {
			if n := readCount(filepath.Join(pids, g.Path, "pids.current")); n != nil {
				out.Processes = int64(*n)
			}
		}
		return out, true
	}
	return Usage{}, false
}
