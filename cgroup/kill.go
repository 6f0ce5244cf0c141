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

// killPause is how long killed processes get to leave.
const killPause = 2 * time.Millisecond

// kill ends the remaining processes of a pod's cgroup, as the kubelet does before it
// removes a cgroup: a process that outlived its container (because the runtime crashed,
// or an exec was orphaned) would keep the cgroup forever.
func (p Plan) kill(ctx context.Context, g Group) error {
	for {
		left := 0
		for _, dir := range p.dirs(g) {
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
		p.thaw(g)
		if wait.Sleep(ctx, killPause) != nil {
			return fmt.Errorf("%d processes remain in it: %w", left, context.Cause(ctx))
		}
	}
}

// killAll kills the processes of one directory: at one stroke on v2, one by
// one on v1.
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

// killMember kills a process in the directory's cgroups. It opens the pidfd first and
// checks the membership afterwards, so that it never kills another process with a reused
// PID.
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

// thaw lets frozen processes die: SIGKILL does not reach a frozen group of v1.
// Usually there is no such file.
func (p Plan) thaw(g Group) {
	mount, ok := p.Mounts["freezer"]
	if !ok || p.Version != 1 {
		return
	}
	root := filepath.Join(mount, g.Path)
	for _, dir := range append([]string{root}, below(root)...) {
		_ = os.WriteFile(filepath.Join(dir, "freezer.state"), []byte("THAWED"), 0)
	}
}

// below lists the groups inside a group.
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
