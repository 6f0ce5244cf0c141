package discover

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/rootless"
)

// namedSystemd is systemd's own hierarchy of cgroup v1. It has no controller.
const namedSystemd = "name=systemd"

// readCgroup finds the cgroup mounts. If a host mounts any v1 controller, as in the hybrid
// layout, it counts as v1.
func (m cgroups) readCgroup(c *host.Cgroup) error {
	if c.Unavailable = m.noCgroups(); c.Unavailable != "" {
		return nil
	}
	v1, unified, err := m.cgroupMounts()
	if err != nil {
		return factError("read the mounts", err, "is /proc mounted?")
	}
	enabled, err := m.enabledControllers()
	if err != nil {
		return err
	}
	if len(v1) == 0 && unified != "" {
		c.Version = 2
		return m.readUnified(c, unified)
	}
	c.Version = 1
	c.MountPoints = v1
	for name := range v1 {
		if enabled == nil || enabled[name] {
			c.Controllers = append(c.Controllers, name)
		}
	}
	slices.Sort(c.Controllers)
	if memory := v1["memory"]; memory != "" {
		c.SwapLimits = m.exists(filepath.Join(memory, "memory.memsw.limit_in_bytes"))
	}
	if unified != "" {
		c.MountPoints[""] = unified
	}
	return nil
}

// NoCgroups returns the reason why pods have no cgroups; "" if they have. The runtime then reports the usage of the
// cgroup of the user's session, or of the whole host, as that of each container.
func NoCgroups() string { return cgroups{machine{root: "/"}}.noCgroups() }

// noCgroups is NoCgroups.
func (m cgroups) noCgroups() string {
	if m.root != "/" || !rootless.User() {
		return ""
	}
	name := "user " + rootless.UserName()
	switch dir, reason := rootless.Cgroup(); {
	case dir != "":
		return ""
	case reason != "":
		return name + " has no cgroups: " + reason
	}
	if reason := rootless.Undelegated(); reason != "" {
		return name + " has no cgroups: " + reason
	}
	return "podrun-rootless, which creates the cgroups of " + name + ", does not run"
}

// readUnified reads the controllers of the v2 root, or of the cgroup in which an ordinary user may create others.
func (m cgroups) readUnified(c *host.Cgroup, mount string) error {
	if m.root == "/" && rootless.User() {
		dir, _ := rootless.Cgroup() // noCgroups has checked it
		c.Delegated = strings.TrimPrefix(dir, mount)
	}
	data, err := m.read(maxProcFile, mount+c.Delegated, "cgroup.controllers")
	if err != nil {
		return factError("read the cgroup controllers", err, "")
	}
	c.Controllers = strings.Fields(string(data))
	slices.Sort(c.Controllers)
	c.MountPoints = map[string]string{"": mount}
	// Every cgroup except the root has the file memory.swap.max.
	if c.Delegated != "" {
		c.SwapLimits = m.exists(filepath.Join(mount+c.Delegated, "memory.swap.max"))
		return nil
	}
	groups, err := hostfile.Entries(m.path(mount), "", "")
	c.SwapLimits = slices.ContainsFunc(groups, func(group string) bool {
		_, err := os.Lstat(filepath.Join(group, "memory.swap.max"))
		return err == nil
	})
	return err
}

// cgroupMounts finds the cgroup mounts. It looks at the usual paths first, because the list of
// all mounts is long on a host with many containers.
func (m cgroups) cgroupMounts() (v1 map[string]string, unified string, err error) {
	if v1, unified, ok := m.usualMounts(); ok {
		return v1, unified, nil
	}
	data, err := m.read(maxProcFile, "proc/self/mountinfo")
	if err != nil {
		return nil, "", err
	}
	v1, unified = listedMounts(string(data))
	return v1, unified, nil
}

// cgroupDir is the directory in which systemd and other init systems mount cgroups.
const cgroupDir = "/sys/fs/cgroup"

// usualMounts finds mounts in cgroupDir. If a hierarchy that /proc/self/cgroup lists is not mounted
// there under its own name, ok is false.
func (m cgroups) usualMounts() (v1 map[string]string, unified string, ok bool) {
	if m.isMount(cgroupDir, unix.CGROUP2_SUPER_MAGIC) {
		return map[string]string{}, cgroupDir, true
	}
	data, err := m.read(maxProcFile, "proc/self/cgroup")
	if err != nil {
		return nil, "", false
	}
	v1 = map[string]string{}
	for line := range strings.Lines(string(data)) {
		_, rest, _ := strings.Cut(line, ":")
		names, _, _ := strings.Cut(rest, ":")
		if names == "" {
			continue // the v2 hierarchy
		}
		dir := filepath.Join(cgroupDir, strings.TrimPrefix(names, "name="))
		if !m.isMount(dir, unix.CGROUP_SUPER_MAGIC) {
			return nil, "", false
		}
		for name := range strings.SplitSeq(names, ",") {
			v1[name] = dir
		}
	}
	if dir := filepath.Join(cgroupDir, "unified"); m.isMount(dir, unix.CGROUP2_SUPER_MAGIC) {
		unified = dir
	}
	return v1, unified, len(v1) > 0
}

// isMount reports whether a directory is the mount point of a file system of this type.
func (m cgroups) isMount(dir string, kind int64) bool {
	var fs unix.Statfs_t
	var here, above unix.Stat_t
	return unix.Statfs(m.path(dir), &fs) == nil && int64(fs.Type) == kind &&
		unix.Lstat(m.path(dir), &here) == nil && unix.Stat(m.path(filepath.Dir(dir)), &above) == nil && here.Dev != above.Dev
}

// listedMounts parses mountinfo (proc(5)). If a controller is mounted twice, listedMounts
// uses the shorter path, as the kubelet does. The key of the v2 hierarchy is "". It parses each line
// separately, so that a malformed line for another program's mount does not hide the cgroups.
func listedMounts(text string) (v1 map[string]string, unified string) {
	v1 = map[string]string{}
	for line := range strings.Lines(text) {
		if !strings.Contains(line, " - cgroup") {
			continue
		}
		mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(line), mountinfo.FSTypeFilter("cgroup", "cgroup2"))
		if err != nil || len(mounts) == 0 {
			continue
		}
		point := mounts[0].Mountpoint
		if mounts[0].FSType == "cgroup2" {
			if unified == "" || len(point) < len(unified) {
				unified = point
			}
			continue
		}
		for option := range strings.SplitSeq(mounts[0].VFSOptions, ",") {
			if have := v1[option]; controllerOption(option) && (have == "" || len(point) < len(have)) {
				v1[option] = point
			}
		}
	}
	return v1, unified
}

// controllerOption reports whether a mount option is the name of a controller.
func controllerOption(option string) bool {
	switch option {
	case "rw", "ro", "xattr", "clone_children", "noprefix", "none", "all", "cpuset_v2_mode", "favordynmods":
		return false
	}
	return option == namedSystemd || !strings.Contains(option, "=")
}

// enabledControllers reads /proc/cgroups. If the kernel has no such file, it returns nil.
func (m cgroups) enabledControllers() (map[string]bool, error) {
	data, err := m.read(maxProcFile, "proc/cgroups")
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, factError("read the cgroup controllers", err, "")
	}
	on := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if len(f) == 4 && !strings.HasPrefix(f[0], "#") && f[3] == "1" {
			on[f[0]] = true
		}
	}
	return on, nil
}

// chooseDriver selects the cgroup driver. The first of these that is known applies: the driver in
// the flag; the runtime's driver, because podrun and the runtime must use the same one; systemd,
// if it is process 1 and cgroup v2 is mounted, which is how distributions configure it; cgroupfs.
func (m cgroups) chooseDriver(c *host.Cgroup, s nodeconfig.Settings, said string) {
	switch {
	case c.Delegated != "": // the user's systemd manages only the cgroup above
		c.Driver, c.DriverFrom = host.DriverCgroupfs, "host"
		if said == host.DriverCgroupfs {
			c.DriverFrom = "runtime"
		}
	case s.CgroupDriver != "":
		c.Driver, c.DriverFrom = s.CgroupDriver, "flag"
	case said != "":
		c.Driver, c.DriverFrom = said, "runtime"
	case c.Version == 2 && m.systemdIsInit():
		c.Driver, c.DriverFrom = host.DriverSystemd, "host"
	default:
		c.Driver, c.DriverFrom = host.DriverCgroupfs, "host"
	}
}

// systemdIsInit reports whether systemd runs as the first process
// (sd_booted(3)).
func (m machine) systemdIsInit() bool {
	info, err := os.Lstat(m.path("run/systemd/system"))
	return err == nil && info.IsDir()
}
