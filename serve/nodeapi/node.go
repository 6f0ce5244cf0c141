package nodeapi

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/ptr"

	"github.com/podrun/podrun/internal/hostfile"
)

// userHz is the unit of /proc/stat, which is constant on Linux (proc_stat(5)).
const userHz = 100

// ReadNode reads the usage of the whole node and of the file system at dir, podrun's root
// directory. It reads the node's usage from /proc, which works with both versions of cgroups.
func ReadNode(ctx context.Context, dir string, now time.Time) (statsapi.NodeStats, error) {
	stat, err := hostfile.Read(ctx, "/proc/stat", 4<<20)
	if err != nil {
		return statsapi.NodeStats{}, fmt.Errorf("read the node's usage: %w", err)
	}
	meminfo, err := hostfile.Read(ctx, "/proc/meminfo", 1<<20)
	if err != nil {
		return statsapi.NodeStats{}, fmt.Errorf("read the node's usage: %w", err)
	}
	n := nodeStats(stat, meminfo, now)
	var fs unix.Statfs_t
	// If the file system does not exist, there are no statistics for it.
	if unix.Statfs(dir, &fs) == nil {
		size := uint64(fs.Bsize)
		n.Fs = &statsapi.FsStats{
			Time:           metav1.NewTime(now),
			CapacityBytes:  ptr.To(fs.Blocks * size),
			AvailableBytes: ptr.To(fs.Bavail * size),
			UsedBytes:      ptr.To((fs.Blocks - fs.Bfree) * size),
			Inodes:         ptr.To(fs.Files),
			InodesFree:     ptr.To(fs.Ffree),
			InodesUsed:     ptr.To(fs.Files - fs.Ffree),
		}
	}
	return n, nil
}

// nodeStats computes the usage from /proc/stat and /proc/meminfo. The working set is the
// used memory without inactive file pages, as cAdvisor computes it for the root cgroup.
func nodeStats(stat, meminfo []byte, now time.Time) statsapi.NodeStats {
	var n statsapi.NodeStats
	stamp := metav1.NewTime(now)
	for line := range strings.SplitSeq(string(stat), "\n") {
		fields := strings.Fields(line)
		switch {
		case len(fields) >= 9 && fields[0] == "cpu":
			var busy uint64
			// The sum of all columns except idle and iowait; user includes guest.
			for _, i := range []int{1, 2, 3, 6, 7, 8} {
				ticks, _ := strconv.ParseUint(fields[i], 10, 64)
				busy += ticks
			}
			n.CPU = &statsapi.CPUStats{Time: stamp, UsageCoreNanoSeconds: ptr.To(busy * (uint64(time.Second) / userHz))}
		case len(fields) == 2 && fields[0] == "btime":
			seconds, _ := strconv.ParseInt(fields[1], 10, 64)
			n.StartTime = metav1.NewTime(time.Unix(seconds, 0))
		}
	}
	bytesOf := map[string]uint64{}
	for line := range strings.SplitSeq(string(meminfo), "\n") {
		if fields := strings.Fields(line); len(fields) >= 2 {
			kib, _ := strconv.ParseUint(fields[1], 10, 64)
			bytesOf[strings.TrimSuffix(fields[0], ":")] = kib << 10
		}
	}
	if total := bytesOf["MemTotal"]; total > 0 {
		used := less(total, bytesOf["MemFree"])
		working := less(used, bytesOf["Inactive(file)"])
		n.Memory = &statsapi.MemoryStats{
			Time:            stamp,
			UsageBytes:      &used,
			WorkingSetBytes: &working,
			AvailableBytes:  ptr.To(less(total, working)),
			RSSBytes:        ptr.To(bytesOf["AnonPages"]),
		}
		n.Swap = &statsapi.SwapStats{
			Time:               stamp,
			SwapAvailableBytes: ptr.To(bytesOf["SwapFree"]),
			SwapUsageBytes:     ptr.To(less(bytesOf["SwapTotal"], bytesOf["SwapFree"])),
		}
	}
	return n
}

func less(a, b uint64) uint64 {
	if b > a {
		return 0
	}
	return a - b
}
