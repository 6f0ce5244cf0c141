package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"

	"github.com/podrun/podrun/host"
)

// hierarchies are the mounted cgroup hierarchies of a host, and the driver of its groups: one hierarchy with
// cgroup v2, several with v1.
type hierarchies struct {
	Version int
	Driver  string
	Mounts  map[string]string // as in Plan
}

func (p Plan) hierarchies() hierarchies {
	return hierarchies{Version: p.Version, Driver: p.Driver, Mounts: p.Mounts}
}

// level returns a group without resources. The argument name is the full name, including the cgroup
// root.
func (h hierarchies) level(name []string) Group {
	return Group{Name: name, Path: groupPath(h.Driver, name)}
}

// dirs returns the group's directory in each hierarchy, sorted and without duplicates.
// Controllers that are mounted together have the same directory.
func (h hierarchies) dirs(g Group) []string {
	var out []string
	for controller, mount := range h.Mounts {
		if h.Version == 2 && controller != "" {
			continue
		}
		out = append(out, filepath.Join(mount, g.Path))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// skipped reports whether a directory is in the hierarchy of the devices controller, in which the cgroup manager
// creates no groups. The runtime creates the path in this hierarchy when it creates a container.
func (h hierarchies) skipped(dir string) bool {
	mount, ok := h.Mounts["devices"]
	return ok && h.Version == 1 && strings.HasPrefix(dir, mount+"/")
}

// cpuMount returns the mount point of the cpu controller's hierarchy.
func (h hierarchies) cpuMount() string {
	if h.Version == 2 {
		return h.Mounts[""]
	}
	return h.Mounts["cpu"]
}

// within reports whether a directory is inside one of the cgroup hierarchies.
func (h hierarchies) within(dir string) bool {
	for _, mount := range h.Mounts {
		if strings.HasPrefix(filepath.Clean(dir), mount+"/") {
			return true
		}
	}
	return false
}

// uidOf returns the UID in the name of a pod's group.
func (h hierarchies) uidOf(name string) (uid string, ok bool) {
	if h.Driver == host.DriverSystemd {
		name, ok = strings.CutSuffix(name, ".slice")
		name = strings.ReplaceAll(name[strings.LastIndexByte(name, '-')+1:], "_", "-")
		uid, found := strings.CutPrefix(name, "pod")
		return uid, ok && found && uid != ""
	}
	uid, ok = strings.CutPrefix(name, "pod")
	return uid, ok && uid != ""
}

// manager returns the cgroup manager of one group.
func (h hierarchies) manager(g Group) (cgroups.Manager, *cgroups.Cgroup, error) {
	config := &cgroups.Cgroup{Resources: g.Resources.config()}
	if h.Driver == host.DriverSystemd {
		config.Systemd = true
		config.Name, config.Parent = unit(g.Path)
		m, err := manager.New(config)
		return m, config, err
	}
	config.Path = g.Path
	paths := map[string]string{}
	for controller, mount := range h.Mounts {
		if h.Version == 1 || controller == "" {
			paths[controller] = filepath.Join(mount, g.Path)
		}
	}
	m, err := manager.NewWithPaths(config, paths)
	return m, config, err
}

// set sets the values of an existing group.
func (h hierarchies) set(g Group) error {
	m, config, err := h.manager(g)
	if err != nil {
		return err
	}
	return m.Set(config.Resources)
}

// holds reports whether a shared group already has the planned weight. This check saves a call to
// systemd for every pod. It returns false if the plan contains values other than the weight,
// because podrun always sets those.
func (h hierarchies) holds(g Group) bool {
	r := g.Resources
	if r.CPUQuota != 0 || r.Memory != 0 || r.PidsLimit != 0 {
		return false
	}
	file, want := filepath.Join(h.cpuMount(), g.Path, "cpu.shares"), r.CPUShares
	if h.Version == 2 {
		file, want = filepath.Join(h.cpuMount(), g.Path, "cpu.weight"), r.CPUWeight
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	have, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return err == nil && have == want
}

// stopUnit makes systemd stop and unload a slice. It succeeds if systemd does not have the
// slice.
func (h hierarchies) stopUnit(g Group) error {
	if h.Driver != host.DriverSystemd {
		return nil
	}
	m, _, err := h.manager(Group{Name: g.Name, Path: g.Path})
	if err != nil {
		return err
	}
	return m.Destroy()
}

// missing returns the directories of the group and its parents that do not exist, up to and
// including the cgroup root, outermost first. For each group that it examines, it records in
// created whether directories are missing. It skips groups that are already in created, because
// Apply will have created these.
func (h hierarchies) missing(g Group, created map[string]bool) []string {
	var out []string
	for i := len(g.Name); i > 0; i-- {
		level := h.level(g.Name[:i])
		if _, known := created[level.Path]; known {
			break
		}
		dirs := slices.DeleteFunc(h.dirs(level), func(dir string) bool { return h.skipped(dir) || exists(dir) })
		if created[level.Path] = len(dirs) > 0; len(dirs) == 0 {
			// No directory of the parents is missing in this case.
			break
		}
		out = append(dirs, out...)
	}
	return out
}
