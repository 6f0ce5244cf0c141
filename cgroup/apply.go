package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/cgroups"
	"github.com/opencontainers/cgroups/manager"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/faultpoint"
	"github.com/podrun/podrun/internal/problem"
)

// Apply creates the cgroups and sets their values. If they exist, it only sets the values. If it
// fails, it removes the cgroups that it created. The error is a *problem.Error of kind Refused if
// the pod's cgroup belongs to a pod of another root directory, and of kind Runtime otherwise.
func Apply(ctx context.Context, p Plan) error {
	groups := append(append([]Group{}, p.Shared...), p.Pods...)
	if len(groups) == 0 {
		return nil
	}
	unlock, err := p.lockShared(ctx)
	if err != nil {
		return failed(groups[len(groups)-1], "create the cgroup", err)
	}
	defer unlock()
	if p.Driver != host.DriverSystemd {
		// The cgroupfs manager creates a group together with its parents, so Apply begins with the
		// innermost group. A slice, in contrast, must exist and have its values before its children
		// are created.
		slices.Reverse(groups)
	}
	created := map[string]bool{}
	var undo []func() error
	for _, g := range groups {
		missing := p.missing(g, created)
		undo = append(undo, func() error { return p.removeCreated(g, missing) })
		err := ctx.Err()
		faultpoint.At("cgroup/make")
		if err == nil {
			err = p.makeGroup(g, missing, created[g.Path])
		}
		faultpoint.At("cgroup/made")
		if err != nil {
			errs := []error{failed(g, "create the cgroup", err)}
			for _, f := range slices.Backward(undo) {
				errs = append(errs, f())
			}
			return errors.Join(errs...)
		}
	}
	return p.updateBurstableWeight(true)
}

// removeCreated removes the new parts of a cgroup: its directories, its slice, and the parent
// slices that were created with it, which systemd would keep. removeCreated does not stop a slice
// that already had a directory, because this would also stop the other processes in it.
func (p Plan) removeCreated(g Group, missing []string) error {
	if !slices.ContainsFunc(missing, exists) {
		return nil // nothing was created
	}
	there := func(dir string) bool { return !p.skipped(dir) && !slices.Contains(missing, dir) }
	for i := len(g.Name); i > 0; i-- {
		level := p.level(g.Name[:i])
		if slices.ContainsFunc(p.dirs(level), there) {
			break
		}
		if err := p.stopUnit(level); err != nil {
			return err
		}
	}
	return removeDirs(missing)
}

// makeGroup creates a group's directories and sets its resources. The argument missing contains the directories
// that do not exist yet, outermost first. The argument created is true if Apply, possibly in an earlier call,
// created some of the group's directories.
func (p Plan) makeGroup(g Group, missing []string, created bool) error {
	if isPod(g) && p.foreign(g) {
		return p.refusal(g)
	}
	// The weight of the Burstable group depends on all Burstable pods, so updateBurstableWeight sets
	// it after the groups have been created.
	if !created && (p.holds(g) || isBurstable(g)) {
		return nil
	}
	m, config, err := p.manager(g)
	if err != nil {
		return err
	}
	p.recordCreating(g, missing)
	if len(missing) > 0 {
		// -1 means that no process is added to the group.
		err = m.Apply(-1)
		faultpoint.At("cgroup/unmarked")
	}
	if err == nil {
		err = m.Set(config.Resources)
	}
	if len(missing) == 0 {
		if err == nil && isPod(g) {
			err = p.updateMark(g)
		}
		return err
	}
	for _, dir := range missing {
		// The directory may be missing, because systemd creates none in hierarchies that the slice
		// does not use.
		markErr := mark(dir, p.noteFor(g, dir))
		if markErr == nil {
			// Other users of the host must be able to read the values, regardless of the umask.
			markErr = os.Chmod(dir, 0o755)
		}
		if err == nil && !errors.Is(markErr, fs.ErrNotExist) {
			err = markErr
		}
	}
	p.removeCreatingRecord()
	return err
}

// updateMark updates the requests that are recorded on a pod's cgroup, after the pod was
// resized. If an older version of podrun did not set the attribute with the root directory,
// updateMark adds it.
func (p Plan) updateMark(g Group) error {
	for _, dir := range p.dirs(g) {
		if milli, ok := recordedMilliCPU(dir); ok && (milli != g.MilliCPU || rootDirOf(dir) != p.RootDir) {
			if err := mark(dir, p.noteFor(g, dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

// missing returns the directories of the group and its parents that do not exist, up to and
// including the cgroup root, outermost first. For each group that it examines, it records in
// created whether directories are missing. It skips groups that are already in created, because
// Apply will have created these.
func (p Plan) missing(g Group, created map[string]bool) []string {
	var out []string
	for i := len(g.Name); i > 0; i-- {
		level := p.level(g.Name[:i])
		if _, known := created[level.Path]; known {
			break
		}
		dirs := slices.DeleteFunc(p.dirs(level), func(dir string) bool { return p.skipped(dir) || exists(dir) })
		if created[level.Path] = len(dirs) > 0; len(dirs) == 0 {
			// No directory of the parents is missing in this case.
			break
		}
		out = append(dirs, out...)
	}
	return out
}

// skipped reports whether a directory is in the hierarchy of the devices controller, in which the cgroup manager
// creates no groups. The runtime creates the path in this hierarchy when it creates a container.
func (p Plan) skipped(dir string) bool {
	mount, ok := p.Mounts["devices"]
	return ok && p.Version == 1 && strings.HasPrefix(dir, mount+"/")
}

// manager returns the cgroup manager of one group.
func (p Plan) manager(g Group) (cgroups.Manager, *cgroups.Cgroup, error) {
	config := &cgroups.Cgroup{Resources: g.Resources.config()}
	if p.Driver == host.DriverSystemd {
		config.Systemd = true
		config.Name, config.Parent = unit(g.Path)
		m, err := manager.New(config)
		return m, config, err
	}
	config.Path = g.Path
	paths := map[string]string{}
	for controller, mount := range p.Mounts {
		if p.Version == 1 || controller == "" {
			paths[controller] = filepath.Join(mount, g.Path)
		}
	}
	m, err := manager.NewWithPaths(config, paths)
	return m, config, err
}

// set sets the values of an existing group.
func (p Plan) set(g Group) error {
	m, config, err := p.manager(g)
	if err != nil {
		return err
	}
	return m.Set(config.Resources)
}

// config converts the resources to the manager's format. The result has neither device rules nor a
// freezer state, because these are only for containers.
func (r Resources) config() *cgroups.Resources {
	c := &cgroups.Resources{
		SkipDevices: true, SkipFreezeOnSet: true,
		CpuShares: r.CPUShares, CpuWeight: r.CPUWeight, CpuQuota: r.CPUQuota, CpuPeriod: r.CPUPeriod,
		Memory: r.Memory,
	}
	if r.PidsLimit > 0 {
		c.PidsLimit = &r.PidsLimit
	}
	for _, h := range r.HugePages {
		c.HugetlbLimit = append(c.HugetlbLimit, &cgroups.HugepageLimit{Pagesize: h.Size, Limit: h.Limit})
	}
	return c
}

// holds reports whether a shared group already has the planned weight. This check saves a call to
// systemd for every pod. It returns false if the plan contains values other than the weight,
// because podrun always sets those.
func (p Plan) holds(g Group) bool {
	r := g.Resources
	if r.CPUQuota != 0 || r.Memory != 0 || r.PidsLimit != 0 {
		return false
	}
	file, want := filepath.Join(p.cpuMount(), g.Path, "cpu.shares"), r.CPUShares
	if p.Version == 2 {
		file, want = filepath.Join(p.cpuMount(), g.Path, "cpu.weight"), r.CPUWeight
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	have, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return err == nil && have == want
}

// failed returns the error for an operation on a group that failed.
func failed(g Group, op string, err error) error {
	if refused, ok := errors.AsType[*problem.Error](err); ok && refused.Kind == problem.Refused {
		return refused
	}
	e := &problem.Error{Kind: problem.Runtime, Object: "cgroup " + g.Path, Op: op, Err: err}
	switch {
	case errors.Is(err, os.ErrPermission):
		e.Hint = "run as root"
	case strings.Contains(err.Error(), "systemd is not running"):
		e.Hint = fmt.Sprintf("use --cgroup-driver=%s", host.DriverCgroupfs)
	}
	return e
}
