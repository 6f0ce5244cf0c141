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

// Apply creates the cgroups and sets their values; for existing cgroups it only
// sets the values. If it fails, it removes the cgroups that it created. The error
// is a *problem.Error of kind Runtime, or of kind Refused if the pod's cgroup is that of a
// pod of another root directory.
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
		// The manager creates the groups around a group with it: the innermost one comes
		// first. A slice, in contrast, must exist with its values before those in it.
		slices.Reverse(groups)
	}
	created := map[string]bool{}
	var undo []func() error
	for _, g := range groups {
		missing := p.missing(g, created)
		undo = append(undo, func() error { return p.unmake(g, missing) })
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
	return p.reweigh(true)
}

// unmake removes the newly created parts of a cgroup: its directories, its slice, and
// those parent slices that were created with it, which systemd would keep. A slice of
// which a directory existed before is in use by other processes, which stopping it would
// stop.
func (p Plan) unmake(g Group, missing []string) error {
	if !slices.ContainsFunc(missing, exists) {
		return nil // nothing was made
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

// makeGroup makes one group, of which these directories are missing, the outer ones
// first. Created is true if it has new directories, which may be those of an earlier call.
func (p Plan) makeGroup(g Group, missing []string, created bool) error {
	if isPod(g) && p.foreign(g) {
		return p.refusal(g)
	}
	// reweigh comes after, with what Burstable pods there are by then.
	if !created && (p.holds(g) || isBurstable(g)) {
		return nil
	}
	m, config, err := p.manager(g)
	if err != nil {
		return err
	}
	p.noteMaking(g, missing)
	if len(missing) > 0 {
		// -1: make the group and put no process into it.
		err = m.Apply(-1)
		faultpoint.At("cgroup/unmarked")
	}
	if err == nil {
		err = m.Set(config.Resources)
	}
	if len(missing) == 0 {
		if err == nil && isPod(g) {
			err = p.remark(g)
		}
		return err
	}
	for _, dir := range missing {
		// systemd creates none in hierarchies that the slice does not need.
		markErr := mark(dir, p.noteFor(g, dir))
		if markErr == nil {
			// Whatever the umask, other users of the host may read its values.
			markErr = os.Chmod(dir, 0o755)
		}
		if err == nil && !errors.Is(markErr, fs.ErrNotExist) {
			err = markErr
		}
	}
	p.made()
	return err
}

// remark updates the recorded requests of a pod's cgroup after a resize of the pod, and adds
// the root directory to the mark of an older podrun.
func (p Plan) remark(g Group) error {
	for _, dir := range p.dirs(g) {
		if milli, ok := noted(dir); ok && (milli != g.MilliCPU || rootDirOf(dir) != p.RootDir) {
			if err := mark(dir, p.noteFor(g, dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

// missing lists the directories that the group lacks, those of the cgroup root
// included, the outer ones first. It adds the paths of the groups that it examines to
// created, with whether they lack any, and expects those in it to be created.
func (p Plan) missing(g Group, created map[string]bool) []string {
	var out []string
	for i := len(g.Name); i > 0; i-- {
		level := p.level(g.Name[:i])
		if _, known := created[level.Path]; known {
			break
		}
		dirs := slices.DeleteFunc(p.dirs(level), func(dir string) bool { return p.skipped(dir) || exists(dir) })
		if created[level.Path] = len(dirs) > 0; len(dirs) == 0 {
			break // then nor do the groups around it
		}
		out = append(dirs, out...)
	}
	return out
}

// skipped reports whether a hierarchy is one in which the manager makes no group: devices,
// where the runtime makes the whole path when a container needs it.
func (p Plan) skipped(dir string) bool {
	mount, ok := p.Mounts["devices"]
	return ok && p.Version == 1 && strings.HasPrefix(dir, mount+"/")
}

// manager makes the manager of one group.
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

// set sets the values of one group that exists.
func (p Plan) set(g Group) error {
	m, config, err := p.manager(g)
	if err != nil {
		return err
	}
	return m.Set(config.Resources)
}

// config converts resources to the manager's format. Devices and freezing belong to the
// containers.
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

// holds reports whether a shared group has its weight already, which spares
// systemd a call for every pod. Groups with other values are always set.
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

// failed makes the error of a group.
func failed(g Group, op string, err error) error {
	if refused, ok := errors.AsType[*problem.Error](err); ok && refused.Kind == problem.Refused {
		return refused
	}
	e := &problem.Error{Kind: problem.Runtime, Object: "cgroup " + g.Path, Op: op, Err: err}
	switch {
	case errors.Is(err, os.ErrPermission):
		e.Hint = "run as root"
	case strings.Contains(err.Error(), "systemd not running"):
		e.Hint = fmt.Sprintf("give --cgroup-driver=%s", host.DriverCgroupfs)
	}
	return e
}
