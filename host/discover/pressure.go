package discover

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
)

// ReadPressure reads only the facts on which evictions depend: the size and the available part of
// the memory, of both file systems, and of the process IDs. If the runtime does not respond,
// ReadPressure omits the runtime's facts, and the error is of kind Runtime. The facts about memory
// and process IDs are valid anyway.
func ReadPressure(ctx context.Context, client *cri.Client, s nodeconfig.Settings) (f host.Facts, err error) {
	m := machine{ctx: ctx, root: "/"}
	memory, err := node{m}.meminfo()
	if err != nil {
		return f, factError("read the memory's size", err, "is /proc mounted?")
	}
	f.MemoryAvailable = memory["MemAvailable"]
	f.Capacity = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(memory["MemTotal"], resource.BinarySI)}
	if f.NodeFS, err = nodeFS(s.RootDir); err != nil {
		return f, factError("read the capacity of "+s.RootDir, err, "")
	}
	f.PIDs = node{m}.pids()
	// podrun must monitor the memory even if the runtime hangs.
	asked, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if info, err := client.Images.FsInfo(asked); err == nil {
		f.ImageFS = imageFS(info)
	}
	return f, nil
}

// readConditions returns the pressure conditions that a supervisor of this root directory
// has recorded, sorted.
func (m podState) readConditions(now time.Time) []corev1.NodeConditionType {
	until, fault, _ := PressureFile.Read(m.ctx, m.layout.Serve().Pressure()) // err is the fault
	m.unreadable.add(fault)
	var out []corev1.NodeConditionType
	for _, c := range []corev1.NodeConditionType{corev1.NodeDiskPressure, corev1.NodeMemoryPressure, corev1.NodePIDPressure} {
		if now.Before(until[c]) {
			out = append(out, c)
		}
	}
	return out
}

// statfs returns the usage of a directory's file system.
func statfs(dir string) (host.Filesystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return host.Filesystem{}, err
	}
	var file unix.Stat_t
	if err := unix.Stat(dir, &file); err != nil {
		return host.Filesystem{}, err
	}
	return host.Filesystem{
		Path: dir, Device: file.Dev, CapacityBytes: int64(st.Blocks) * st.Bsize, AvailableBytes: int64(st.Bavail) * st.Bsize,
		Inodes: int64(st.Files), InodesFree: int64(st.Ffree),
	}, nil
}

// nodeFS returns the file system that contains dir. If dir does not exist yet, it returns the
// one that will contain it.
func nodeFS(dir string) (host.Filesystem, error) {
	for at := dir; ; {
		fs, err := statfs(at)
		if err == nil {
			fs.Path = dir
			return fs, nil
		}
		parent := filepath.Dir(at)
		if err != unix.ENOENT || parent == at {
			return fs, fmt.Errorf("statfs %s: %w", at, err)
		}
		at = parent
	}
}

// imageFS returns the file system of the runtime's images. It is unknown if the runtime does
// not report it, or if podrun cannot access the directory that the runtime reports (the runtime
// may be in another mount namespace). An unknown file system causes no pressure.
func imageFS(info *runtimeapi.ImageFsInfoResponse) host.Filesystem {
	for _, usage := range info.GetImageFilesystems() {
		if dir := usage.GetFsId().GetMountpoint(); dir != "" {
			if fs, err := statfs(dir); err == nil {
				return fs
			}
		}
	}
	return host.Filesystem{}
}

// pids counts processes and threads as the kubelet does (pkg/kubelet/stats/pidlimit). It also
// returns the smaller of the kernel's two limits. If /proc does not contain a number, it
// returns zero for it.
func (m node) pids() host.PIDs {
	most := int64(0)
	for _, file := range []string{"pid_max", "threads-max"} {
		data, err := m.read(maxProcFile, "proc/sys/kernel", file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && (most == 0 || n < most) {
			most = n
		}
	}
	// The format is 0.20 0.18 0.12 1/80 11206. The fourth field is running/all.
	data, err := m.read(maxProcFile, "proc/loadavg")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 4 {
		return host.PIDs{}
	}
	_, all, _ := strings.Cut(fields[3], "/")
	used, err := strconv.ParseInt(all, 10, 64)
	if err != nil {
		return host.PIDs{}
	}
	return host.PIDs{Max: most, Used: used}
}
