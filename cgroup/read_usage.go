package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

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
		used, ok := readNumber(filepath.Join(dir, current))
		if memory == "" || !ok {
			continue
		}
		out := Usage{Memory: max(0, used-readStat(filepath.Join(dir, "memory.stat"), inactive))}
		if pids != "" {
			out.Processes, _ = readNumber(filepath.Join(pids, g.Path, "pids.current"))
		}
		return out, true
	}
	return Usage{}, false
}

func readNumber(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}

// readStat is a value of memory.stat; 0 if it is missing.
func readStat(path, key string) int64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
