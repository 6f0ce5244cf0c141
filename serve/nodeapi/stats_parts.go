package nodeapi

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/internal/identity"
)

// sumUp sets the pod's CPU and memory usage, if they are unknown, to the sums over its containers.
// It also sets the pod's ephemeral storage to the sum over its containers.
func sumUp(p *statsapi.PodStats, now time.Time) {
	var cpu, working, used uint64
	anyCPU, anyMemory, anyFS := false, false, false
	for _, c := range p.Containers {
		if c.CPU != nil && c.CPU.UsageCoreNanoSeconds != nil {
			cpu, anyCPU = cpu+*c.CPU.UsageCoreNanoSeconds, true
		}
		if c.Memory != nil && c.Memory.WorkingSetBytes != nil {
			working, anyMemory = working+*c.Memory.WorkingSetBytes, true
		}
		if c.Rootfs != nil && c.Rootfs.UsedBytes != nil {
			used, anyFS = used+*c.Rootfs.UsedBytes, true
		}
	}
	if p.CPU == nil && anyCPU {
		p.CPU = &statsapi.CPUStats{Time: metav1.NewTime(now), UsageCoreNanoSeconds: &cpu}
	}
	if p.Memory == nil && anyMemory {
		p.Memory = &statsapi.MemoryStats{Time: metav1.NewTime(now), WorkingSetBytes: &working}
	}
	if anyFS {
		p.EphemeralStorage = &statsapi.FsStats{Time: metav1.NewTime(now), UsedBytes: &used}
	}
}

// containerStats returns the statistics of one container. The argument created is the creation time
// in nanoseconds since 1970.
func containerStats(s *runtimeapi.ContainerStats, created int64) statsapi.ContainerStats {
	c := statsapi.ContainerStats{Name: s.GetAttributes().GetLabels()[identity.LabelContainerName], StartTime: metav1.NewTime(time.Unix(0, created)),
		CPU: cpuStats(s.GetCpu()), Memory: memoryStats(s.GetMemory())}
	if w := s.GetWritableLayer(); w != nil {
		c.Rootfs = &statsapi.FsStats{Time: at(w.Timestamp), UsedBytes: value(w.UsedBytes), InodesUsed: value(w.InodesUsed)}
	}
	if w := s.GetSwap(); w != nil {
		c.Swap = &statsapi.SwapStats{Time: at(w.Timestamp), SwapAvailableBytes: value(w.SwapAvailableBytes), SwapUsageBytes: value(w.SwapUsageBytes)}
	}
	return c
}

func cpuStats(u *runtimeapi.CpuUsage) *statsapi.CPUStats {
	if u == nil {
		return nil
	}
	return &statsapi.CPUStats{Time: at(u.Timestamp), UsageCoreNanoSeconds: value(u.UsageCoreNanoSeconds), UsageNanoCores: value(u.UsageNanoCores)}
}

func memoryStats(u *runtimeapi.MemoryUsage) *statsapi.MemoryStats {
	if u == nil {
		return nil
	}
	return &statsapi.MemoryStats{
		Time:            at(u.Timestamp),
		AvailableBytes:  value(u.AvailableBytes),
		UsageBytes:      value(u.UsageBytes),
		WorkingSetBytes: value(u.WorkingSetBytes),
		RSSBytes:        value(u.RssBytes),
		PageFaults:      value(u.PageFaults),
		MajorPageFaults: value(u.MajorPageFaults),
	}
}

func networkStats(u *runtimeapi.NetworkUsage) *statsapi.NetworkStats {
	if u == nil {
		return nil
	}
	out := &statsapi.NetworkStats{Time: at(u.Timestamp)}
	if d := u.DefaultInterface; d != nil {
		out.InterfaceStats = interfaceStats(d)
		out.Interfaces = append(out.Interfaces, out.InterfaceStats)
	}
	for _, i := range u.Interfaces {
		out.Interfaces = append(out.Interfaces, interfaceStats(i))
	}
	return out
}

func interfaceStats(i *runtimeapi.NetworkInterfaceUsage) statsapi.InterfaceStats {
	return statsapi.InterfaceStats{
		Name:     i.GetName(),
		RxBytes:  value(i.RxBytes),
		RxErrors: value(i.RxErrors),
		TxBytes:  value(i.TxBytes),
		TxErrors: value(i.TxErrors),
	}
}

func at(nanos int64) metav1.Time { return metav1.NewTime(time.Unix(0, nanos)) }

func value(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return ptr.To(v.GetValue())
}
