package cgroup

import "path/filepath"

// Usage is the resource usage of a pod's cgroup.
type Usage struct {
	Memory    int64 // bytes of the working set: the usage without inactive file pages
	Processes int64 // includes threads; 0 if the pids controller is not available
}

// ReadUsage reads the resource usage of the pod's cgroup. It computes the usage as the kubelet
// does. It returns false if the pod has no cgroup, or if the kernel does not count the pod's
// memory.
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
