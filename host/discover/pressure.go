package discover

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/host"
)

// statfs says how full the filesystem of a directory is.
func statfs(dir string) (host.Filesystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return host.Filesystem{}, err
	}
	return host.Filesystem{
		Path: dir, CapacityBytes: int64(st.Blocks) * st.Bsize, AvailableBytes: int64(st.Bavail) * st.Bsize,
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

// imageFS is the filesystem of the runtime's images. It is unknown where the
// runtime does not say, or names a directory that podrun can't see (it may have
// mounts of its own): then there is no pressure to be seen there either.
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
// tell.
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
