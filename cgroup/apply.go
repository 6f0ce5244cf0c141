package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/cgroups"

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
		missing := p.hierarchies().missing(g, created)
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
	h := p.hierarchies()
	if !slices.ContainsFunc(missing, exists) {
		return nil // nothing was created
	}
	there := func(dir string) bool { return !h.skipped(dir) && !slices.Contains(missing, dir) }
	for i := len(g.Name); i > 0; i-- {
		level := h.level(g.Name[:i])
		if slices.ContainsFunc(h.dirs(level), there) {
			break
		}
		if err := h.stopUnit(level); err != nil {
			return err
		}
	}
	return removeDirs(missing)
}

// makeGroup creates a group's directories and sets its resources. The argument missing contains the directories
// that do not exist yet, outermost first. The argument created is true if Apply, possibly in an earlier call,
// created some of the group's directories.
func (p Plan) makeGroup(g Group, missing []string, created bool) error {
	h := p.hierarchies()
	if isPod(g) && p.foreign(g) {
		return p.refusal(g)
	}
	// The weight of the Burstable group depends on all Burstable pods, so updateBurstableWeight sets
	// it after the groups have been created.
	if !created && (h.holds(g) || isBurstable(g)) {
		return nil
	}
	m, config, err := h.manager(g)
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
	for _, dir := range p.hierarchies().dirs(g) {
		if milli, ok := recordedMilliCPU(dir); ok && (milli != g.MilliCPU || rootDirOf(dir) != p.RootDir) {
			if err := mark(dir, p.noteFor(g, dir)); err != nil {
				return err
			}
		}
	}
	return nil
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
