package cgroup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/wait"
)

// killPause is the interval at which podrun checks whether killed processes have exited.
const killPause = 2 * time.Millisecond

// kill kills the processes that remain in a pod's cgroup. The kubelet does the same before it
// removes a cgroup. A process may outlive its container if the runtime crashed or an exec was
// orphaned. Such a process would otherwise prevent the removal forever.
func (h hierarchies) kill(ctx context.Context, g Group) error {
	for {
		left := 0
		for _, dir := range h.dirs(g) {
			pids, err := processes(dir)
			if err != nil {
				return err
			}
			left += len(pids)
			if err := killAll(dir, pids); err != nil {
				return err
			}
		}
		if left == 0 {
			return nil
		}
		h.thaw(g)
		if wait.Sleep(ctx, killPause) != nil {
			return fmt.Errorf("%d processes remain in it: %w", left, context.Cause(ctx))
		}
	}
}

// killAll kills the processes in one directory. On cgroup v2 it kills all of them at once, on
// v1 one by one.
func killAll(dir string, pids []int) error {
	if len(pids) == 0 {
		return nil
	}
	if slices.Contains(pids, os.Getpid()) {
		return fmt.Errorf("podrun itself runs in it")
	}
	if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return nil
	}
	for _, pid := range pids {
		if err := killMember(dir, pid); err != nil {
			return err
		}
	}
	return nil
}

// killMember kills a process if it is in the directory's cgroups. It opens the pidfd before it
// checks the membership, so that it never kills an unrelated process that reuses the PID.
func killMember(dir string, pid int) error {
	if pid <= 1 {
		return fmt.Errorf("process %d is in another PID namespace and cannot be killed", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	members, err := processes(dir)
	if err != nil || !slices.Contains(members, pid) {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// thaw thaws the cgroups on v1, where frozen processes do not react to SIGKILL. Usually, there is
// no file freezer.state.
func (h hierarchies) thaw(g Group) {
	mount, ok := h.Mounts["freezer"]
	if !ok || h.Version != 1 {
		return
	}
	root := filepath.Join(mount, g.Path)
	for _, dir := range append([]string{root}, below(root)...) {
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
	}
}

// below returns the directories of all groups inside a group.
func below(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			inner := filepath.Join(dir, e.Name())
			out = append(append(out, inner), below(inner)...)
		}
	}
	return out
}
