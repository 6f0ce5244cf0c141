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

// The time for which, and the interval at which, podrun retries the removal of a group. The kernel
// releases a group some time after its last process was killed.
const (
	removeWithin = 5 * time.Second
	removePause  = time.Millisecond
)

// Remove removes the pod's cgroup in every hierarchy, including children that the runtime created.
// It kills the processes that remain in it. Then it removes the shared cgroups and the cgroups of
// the cgroup root, if podrun created them and they are empty. Otherwise it updates the weight of
// the shared Burstable cgroup. A missing cgroup is not an error. If another root directory is
// recorded on a pod's cgroup, Remove skips this cgroup. Older versions of podrun did not record a
// root directory, so the caller must check that the pod belongs to its own root directory. If ctx
// ends while Remove waits, the error wraps the cause.
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

// RemoveUnused is like Remove, but does not kill processes: it returns an error if a pod's cgroup
// has processes.
func RemoveUnused(ctx context.Context, p Plan) error {
	for _, g := range p.Pods {
		for _, dir := range p.hierarchies().dirs(g) {
			if pids, err := processes(dir); err != nil || len(pids) > 0 {
				return failed(g, "remove the cgroup", errors.Join(err, fmt.Errorf("processes %v are in it", pids)))
			}
		}
	}
	return Remove(ctx, p)
}

func (p Plan) remove(ctx context.Context, g Group) error {
	h := p.hierarchies()
	if !isPod(g) {
		return fmt.Errorf("%s is not the cgroup of a pod", g.Path)
	}
	if p.foreign(g) {
		return nil
	}
	dirs := h.dirs(g)
	if p.Driver != host.DriverSystemd {
		// The first attempt is rmdir without a check, because the group is usually empty, and rmdir
		// is cheaper than a check.
		dirs = slices.DeleteFunc(dirs, func(dir string) bool { err := unix.Rmdir(dir); return err == nil || noGroup(err) })
	}
	if !slices.ContainsFunc(dirs, exists) {
		// systemd may still have the unit loaded.
		return h.stopUnit(g)
	}
	if err := h.kill(ctx, g); err != nil {
		return err
	}
	if err := h.stopUnit(g); err != nil {
		return err
	}
	for _, dir := range dirs {
		// Another podrun process has created the group since this process removed its own.
		if p.foreign(g) {
			return nil
		}
		if err := removeTree(ctx, dir); err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes a group and the groups inside it, the innermost first. The kernel returns
// EBUSY until the last process was reaped.
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
	for pause := removePause; ; pause = wait.Next(pause, removePause, 100*removePause) {
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
	for _, g := range p.parents() {
		if err := p.hierarchies().removeEmpty(g); err != nil {
			return failed(g, "remove the cgroup", err)
		}
	}
	return nil
}

// parents returns the shared cgroups and the cgroups of the cgroup root, innermost first.
func (p Plan) parents() []Group {
	groups := slices.Clone(p.Shared)
	slices.Reverse(groups)
	for i := len(p.Root); i > 0; i-- {
		groups = append(groups, p.hierarchies().level(p.Root[:i]))
	}
	return groups
}

// removeEmpty removes a cgroup that podrun created and that is no longer in use.
func (h hierarchies) removeEmpty(g Group) error {
	dirs := h.dirs(g)
	if slices.ContainsFunc(dirs, hasGroups) || !slices.ContainsFunc(dirs, marked) {
		return nil
	}
	if h.Driver == host.DriverSystemd {
		// Stopping the unit would also stop its processes.
		for _, dir := range dirs {
			if pids, err := procs(dir); len(pids) > 0 || err != nil {
				return err
			}
		}
		if err := h.stopUnit(g); err != nil {
			return err
		}
	}
	// removeDirs skips directories that have processes.
	return removeDirs(dirs)
}

// hasGroups reports whether a group has other groups inside it. The kernel counts one link for each
// inner group (kernfs_refresh_inode), and two for the directory itself.
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

// noGroup reports whether an error means that the cgroup does not exist. Reads of the files of a
// cgroup that is being removed return ENODEV.
func noGroup(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}
