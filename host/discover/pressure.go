package discover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/identity"
)

// ReadPressure reads only the facts that evictions depend on: the size and the available
// part of the memory, both file systems and process IDs. Facts from a runtime that does
// not answer are left out, so that the node's resources are known without it. The error
// is of kind Runtime.
func ReadPressure(ctx context.Context, client *cri.Client, s nodeconfig.Settings) (f host.Facts, err error) {
	m := machine{ctx: ctx, root: "/"}
	memory, err := m.meminfo()
	if err != nil {
		return f, trouble("read the memory's size", err, "is /proc mounted?")
	}
	f.MemoryAvailable = memory["MemAvailable"]
	f.Capacity = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(memory["MemTotal"], resource.BinarySI)}
	if f.NodeFS, err = nodeFS(s.RootDir); err != nil {
		return f, trouble("read the capacity of "+s.RootDir, err, "")
	}
	f.PIDs = m.pids()
	asked, cancel := context.WithTimeout(ctx, answerWithin) // memory must be observed even if the runtime hangs
	defer cancel()
	if info, err := client.ImageFsInfo(asked); err == nil {
		f.ImageFS = imageFS(info)
	}
	return f, nil
}

// readConditions reads under which pressure a supervisor of this root directory takes
// the node to be, sorted.
func (m machine) readConditions(layout identity.Layout, now time.Time) []corev1.NodeConditionType {
	data, err := hostfile.Read(m.ctx, layout.Pressure(), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var until map[corev1.NodeConditionType]time.Time
	if err == nil && len(data) > 0 { // else it was lost with the power
		content, _ := identity.CutSchema(data)
		err = json.Unmarshal(content, &until)
	}
	if err != nil {
		m.unreadable.add("pressure of the node", fmt.Errorf("%s: %w", layout.Pressure(), err))
	}
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

// nodeFS is the filesystem that dir is on or will be on.
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

// imageFS is the file system of the runtime's images. It is unknown if the runtime does
// not report it, or reports a directory that podrun cannot see (the runtime may be in
// another mount namespace): then there is no pressure on it.
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

// pids counts as the kubelet does (pkg/kubelet/stats/pidlimit): threads too, by
// the smaller of both of the kernel's limits. It is unknown where /proc does not
// show it.
func (m machine) pids() host.PIDs {
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
	// 0.20 0.18 0.12 1/80 11206: the fourth field is running/all.
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
