package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/podrun/podrun/serve"
)

// CompareUsage compares figures for sorting: higher ones first, unknown ones last.
func CompareUsage(a, b *uint64) int {
	value := func(n *uint64) int64 {
		if n == nil {
			return -1
		}
		return int64(*n)
	}
	return cmp.Compare(value(b), value(a))
}

// SortUsage sorts pods and their containers, which are initially in the order of their
// names.
func SortUsage(pods []serve.PodUsage, by string) {
	compare := func(serve.Usage, serve.Usage) int { return 0 }
	switch by {
	case "cpu":
		compare = func(a, b serve.Usage) int { return CompareUsage(a.NanoCores, b.NanoCores) }
	case "memory":
		compare = func(a, b serve.Usage) int { return CompareUsage(a.WorkingSetBytes, b.WorkingSetBytes) }
	}
	slices.SortStableFunc(pods, func(a, b serve.PodUsage) int { return compare(a.Usage, b.Usage) })
	for _, p := range pods {
		slices.SortStableFunc(p.Containers, func(a, b serve.ContainerUsage) int { return compare(a.Usage, b.Usage) })
	}
}

// Add adds the known figures of b to a.
func Add(a *serve.Usage, b serve.Usage) {
	for _, n := range []struct {
		To  **uint64
		and *uint64
	}{{&a.NanoCores, b.NanoCores}, {&a.WorkingSetBytes, b.WorkingSetBytes}} {
		if n.and == nil {
			continue
		}
		sum := *n.and
		if *n.To != nil {
			sum += **n.To
		}
		*n.To = &sum
	}
}

// CpuCell formats CPU usage in thousandths of a core, rounded up as in kubectl.
func CpuCell(nanoCores *uint64) string {
	if nanoCores == nil {
		return "<unknown>"
	}
	return fmt.Sprintf("%dm", (*nanoCores+999_999)/1_000_000)
}

// MemoryCell formats memory in MiB, as kubectl does, or in KiB if it is less than 1 MiB.
func MemoryCell(bytes *uint64) string {
	if bytes == nil {
		return "<unknown>"
	}
	if *bytes < 1<<20 {
		return fmt.Sprintf("%dKi", *bytes>>10)
	}
	return fmt.Sprintf("%dMi", *bytes>>20)
}
