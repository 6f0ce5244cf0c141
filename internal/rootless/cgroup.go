package rootless

import (
	"os"
	"strings"
	"syscall"
)

// CgroupMount is the mount point of cgroup v2.
const CgroupMount = "/sys/fs/cgroup"

// Cgroup returns the directory in which systemd lets podrun create the cgroups of pods, or the reason why there is none.
// Both are empty for root, and if podrun-rootless does not run.
func Cgroup() (dir, reason string) {
	r := ReadRecord()
	switch {
	case !r.Alive() && Inside() == nil:
		return "", ""
	case r.Cgroup == "":
		return "", r.NoCgroups
	}
	dir = CgroupMount + r.Cgroup
	if _, err := os.Lstat(dir); err != nil {
		return "", "the systemd manager of the user has ended since podrun-rootless was started"
	}
	return dir, ""
}

// Controllers returns the controllers that are available in a directory of cgroup v2.
func Controllers(dir string) []string {
	data, err := os.ReadFile(dir + "/cgroup.controllers")
	if err != nil {
		return nil
	}
	return strings.Fields(string(data))
}

// cgroup2Magic is CGROUP2_SUPER_MAGIC of linux/magic.h.
const cgroup2Magic = 0x63677270

// Undelegated returns the reason why systemd cannot give the user a cgroup; "" if it can. It does not connect to systemd.
func Undelegated() string {
	var st syscall.Statfs_t
	switch {
	case syscall.Statfs(CgroupMount, &st) != nil || int64(st.Type) != cgroup2Magic:
		return "this host does not have only cgroup v2"
	case ManagerSocket() == "":
		return "no systemd manager of the user runs"
	}
	return ""
}
