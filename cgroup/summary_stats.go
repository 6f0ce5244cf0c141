package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Stats is the resource usage of a pod's cgroup, for statistics. A field is nil if its value is
// unknown.
type Stats struct {
	CPUNanoSeconds  *uint64 // CPU time since the cgroup was created
	MemoryBytes     *uint64
	WorkingSetBytes *uint64 // memory without inactive file pages, as cAdvisor computes it
}

// ReadStats reads the usage of the pod from the first group of the plan that exists. It returns
// false if the pod has no group.
func ReadStats(p Plan) (u Stats, found bool) {
	for _, g := range p.Pods {
		var memory string
		inactive := "total_inactive_file"
		if p.Version == 2 {
			dir := filepath.Join(p.Mounts[""], g.Path)
			if usec := readKey(filepath.Join(dir, "cpu.stat"), "usage_usec"); usec != nil {
				*usec *= 1000
				u.CPUNanoSeconds = usec
			}
			u.MemoryBytes = readCount(filepath.Join(dir, "memory.current"))
			memory, inactive = dir, "inactive_file"
		} else {
			u.CPUNanoSeconds = readCount(filepath.Join(p.Mounts["cpuacct"], g.Path, "cpuacct.usage"))
			memory = filepath.Join(p.Mounts["memory"], g.Path)
			u.MemoryBytes = readCount(filepath.Join(memory, "memory.usage_in_bytes"))
		}
		if u.MemoryBytes != nil {
			working := workingSet(*u.MemoryBytes, memory, inactive)
			u.WorkingSetBytes = &working
		}
		if u.CPUNanoSeconds != nil || u.MemoryBytes != nil {
			return u, true
		}
	}
	return Stats{}, false
}

// workingSet returns the used memory minus the inactive file pages. The argument inactive is their
// key in dir/memory.stat.
func workingSet(used uint64, dir, inactive string) uint64 {
	if file := readKey(filepath.Join(dir, "memory.stat"), inactive); file != nil {
		used -= min(*file, used)
	}
	return used
}

// readCount reads a file that contains one number. It returns nil on failure.
func readCount(path string) *uint64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// readKey reads the number with the given key from a file such as cpu.stat. It returns nil if the
// file does not contain the key.
func readKey(path, key string) *uint64 {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			if n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64); err == nil {
				return &n
			}
		}
	}
	return nil
}
