package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/wait"
)

// How long, and at which interval, podrun retries the removal of a group after the group's last
// process was killed: the kernel releases the group with a delay.
const (
	removeWithin = 5 * time.Second
	removePause  = time.Millisecond
)

// Remove removes the pod's cgroup in every hierarchy, including children that the runtime
// created, and kills the processes that remain in it. Then it removes the shared cgroups and the
// cgroups of the cgroup root, if podrun created them and they are empty; otherwise it updates the
// weight of the shared Burstable cgroup. A missing cgroup is not an error. Remove skips a pod's
// cgroup on which another root directory is recorded. Older versions of podrun recorded none, so
// the caller must check that the pod is its own. If ctx ends while Remove waits, the error wraps
// the cause.
func Remove(ctx context.Context, p Plan) error {
	short, cancel := context.WithTimeout(ctx, removeWithin)
	defer cancel()
	var errs []error
	for _, g := range p.Pods {
		if err := p.remove(short, g); err != nil {
			errs = append(errs, failed(g, "remove the cgroup", err))
		}
	}
	errs = append(errs, p.underLock(ctx, "update the cgroups that pods share", func() error {
		return errors.Join(p.removeParents(), p.updateBurstableWeight(false))
	}))
	return errors.Join(errs...)
}

// RemoveUnused is like Remove but kills no process: it returns an error if a pod's cgroup
// contains any.
func RemoveUnused(ctx context.Context, p Plan) error {
	for _, g := range p.Pods {
		for _, dir := range p.dirs(g) {
			if pids, err := processes(dir); err != nil || len(pids) > 0 {
				return failed(g, "remove the cgroup", errors.Join(err, fmt.Errorf("processes %v are in it", pids)))
			}
		}
	}
	return Remove(ctx, p)
}

func (p Plan) remove(ctx context.Context, g Group) error {
	if !isPod(g) {
		return fmt.Errorf("%s is not the cgroup of a pod", g.Path)
	}
	if p.foreign(g) {
		return nil
	}
	dirs := p.dirs(g)
	if p.Driver != host.DriverSystemd {
		// Try rmdir first: the group is usually empty, and this is cheaper than checking.
		dirs = slices.DeleteFunc(dirs, func(dir string) bool { err := unix.Rmdir(dir); return err == nil || noGroup(err) })
	}
	if !slices.ContainsFunc(dirs, exists) {
		return p.stopUnit(g) // systemd may still have the unit loaded
	}
	if err := p.kill(ctx, g); err != nil {
		return err
	}
	if err := p.stopUnit(g); err != nil {
		return err
	}
	for _, dir := range dirs {
		if p.foreign(g) { // another podrun process has created the group since this process removed its own
			return nil
		}
		if err := removeTree(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes a group and the groups inside it, innermost first. The kernel returns
// EBUSY until the last process is reaped.
func removeTree(ctx context.Context, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		if noGroup(err) {
			return nil
		}
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(ctx, filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for pause := removePause; ; pause = min(2*pause, 100*removePause) {
		err := unix.Rmdir(dir)
		switch {
		case err == nil || noGroup(err):
			return nil
		case err != unix.EBUSY:
			return &os.PathError{Op: "rmdir", Path: dir, Err: err}
		}
		if wait.Sleep(ctx, pause) != nil {
			pids, _ := processes(dir)
			return fmt.Errorf("rmdir %s: still in use (processes %v): %w", dir, pids, context.Cause(ctx))
		}
	}
}

// removeParents removes the shared cgroups and the cgroups of the cgroup root if they are empty.
// The caller must hold the lock.
func (p Plan) removeParents() error {
	groups := slices.Clone(p.Shared)
	slices.Reverse(groups)
	for i := len(p.Root); i > 0; i-- {
		groups = append(groups, p.level(p.Root[:i]))
	}
	for _, g := range groups {
		if err := p.removeEmpty(g); err != nil {
			return failed(g, "remove the cgroup", err)
		}
	}
	return nil
}

// removeEmpty removes a cgroup that podrun created and that is no longer in use.
func (p Plan) removeEmpty(g Group) error {
	dirs := p.dirs(g)
	if slices.ContainsFunc(dirs, hasGroups) || !slices.ContainsFunc(dirs, marked) {
		return nil
	}
	if p.Driver == host.DriverSystemd {
		for _, dir := range dirs { // stopping the unit would stop its processes
			if pids, err := procs(dir); len(pids) > 0 || err != nil {
				return err
			}
		}
		if err := p.stopUnit(g); err != nil {
			return err
		}
	}
	return removeDirs(dirs) // skips directories that have processes
}

// hasGroups reports whether a group contains other groups: the kernel counts one link for each of
// them (kernfs_refresh_inode), in addition to the two links of the directory itself.
func hasGroups(dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) == nil && st.Nlink > 2
}

// removeDirs removes directories in reverse order. It keeps a directory that another process has
// begun to use.
func removeDirs(dirs []string) error {
	var errs []error
	for _, dir := range slices.Backward(dirs) {
		err := unix.Rmdir(dir)
		if err != nil && !noGroup(err) && err != unix.EBUSY && err != unix.ENOTEMPTY {
			errs = append(errs, &os.PathError{Op: "rmdir", Path: dir, Err: err})
		}
	}
	return errors.Join(errs...)
}

// stopUnit makes systemd stop and unload a slice. It succeeds if systemd does not have the
// slice.
func (p Plan) stopUnit(g Group) error {
	if p.Driver != host.DriverSystemd {
		return nil
	}
	m, _, err := p.manager(Group{Name: g.Name, Path: g.Path})
	if err != nil {
		return err
	}
	return m.Destroy()
}

// noGroup reports whether an error means that the cgroup no longer exists: a file of a
// cgroup that is being removed returns ENODEV.
func noGroup(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}
