package cgroup

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Grow sets each value of the pod's cgroup to the maximum of its current and its planned value. The
// values of containers in it can then be raised and lowered, and a later Apply sets the planned
// values. Grow does nothing if the cgroup does not exist. The errors are those of Apply.
func Grow(ctx context.Context, p Plan) error {
	h := p.hierarchies()
	for _, g := range p.Pods {
		if err := ctx.Err(); err != nil {
			return failed(g, "increase the cgroup's limits", context.Cause(ctx))
		}
		if p.foreign(g) {
			return p.refusal(g)
		}
		has, ok := h.readResources(g)
		if !ok {
			continue
		}
		more, grows := g.Resources.growth(has)
		if !grows {
			continue
		}
		g.Resources = more
		if err := h.set(g); err != nil {
			return failed(g, "increase the cgroup's limits", err)
		}
	}
	return nil
}

// growth returns the values of r that exceed the current values.
func (r Resources) growth(current Resources) (more Resources, grows bool) {
	if r.CPUShares > current.CPUShares {
		more.CPUShares = r.CPUShares
	}
	if r.CPUWeight > current.CPUWeight {
		more.CPUWeight = r.CPUWeight
	}
	if current.CPUQuota > 0 && (r.CPUQuota < 0 || r.CPUQuota > current.CPUQuota) {
		more.CPUQuota, more.CPUPeriod = r.CPUQuota, r.CPUPeriod
	}
	if r.Memory > current.Memory {
		more.Memory = r.Memory
	}
	return more, more.CPUShares+more.CPUWeight+uint64(more.Memory) > 0 || more.CPUQuota != 0
}

// readResources reads the values of the pod's cgroup. In the result, -1 means no quota, and
// math.MaxInt64 means no memory limit. It returns false if the pod has no cgroup.
func (h hierarchies) readResources(g Group) (Resources, bool) {
	cpu := filepath.Join(h.cpuMount(), g.Path)
	if h.Version == 2 {
		has := Resources{CPUQuota: -1, Memory: orUnlimited(readCount(filepath.Join(cpu, "memory.max")))}
		has.CPUWeight = orZero(readCount(filepath.Join(cpu, "cpu.weight")))
		data, err := os.ReadFile(filepath.Join(cpu, "cpu.max"))
		if quota, _, ok := strings.Cut(string(data), " "); ok && err == nil {
			if n, err := strconv.ParseInt(quota, 10, 64); err == nil {
				has.CPUQuota = n
			}
		}
		return has, exists(cpu)
	}
	memory := filepath.Join(h.Mounts["memory"], g.Path)
	has := Resources{CPUQuota: -1, CPUShares: orZero(readCount(filepath.Join(cpu, "cpu.shares"))),
		Memory: orUnlimited(readCount(filepath.Join(memory, "memory.limit_in_bytes")))}
	// n is nil if the file contains -1, which means no quota.
	if n := readCount(filepath.Join(cpu, "cpu.cfs_quota_us")); n != nil {
		has.CPUQuota = int64(*n)
	}
	return has, exists(cpu) || exists(memory)
}

func orZero(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

// orUnlimited returns *n, or math.MaxInt64 if *n is greater or n is nil, which stands for the text
// "max".
func orUnlimited(n *uint64) int64 {
	if n == nil || *n > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(*n)
}

// ReadMemoryLimitDecrease returns the memory usage of the pod's group and the planned limit, in bytes, if the plan
// lowers the limit. Otherwise, or if the usage is unknown, it returns 0, 0.
func ReadMemoryLimitDecrease(p Plan) (used, limit int64) {
	for _, g := range p.Pods {
		has, ok := p.hierarchies().readResources(g)
		if want := g.Resources.Memory; !ok || want == 0 || want >= has.Memory {
			continue
		}
		if s, ok := ReadStats(p); ok && s.MemoryBytes != nil {
			return int64(*s.MemoryBytes), g.Resources.Memory
		}
	}
	return 0, 0
}
