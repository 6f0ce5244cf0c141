package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// How many files containerd, its shims and containers may open: the limits that systemd
// sets, which containerd's own unit leaves so since 2.0. Programs that close or poll all
// that they may open are slow with more; containerd itself raises its soft limit.
const (
	softFiles = 1024
	openFiles = 512 << 10
)

// spawnProcess starts containerd where no systemd runs: in a session of its own, so that
// no terminal and no clean-up of a process group ends it, and in control groups of its
// own. It inherits no descriptor but the log.
func spawnProcess(l Layout, argv, env []string, cgroupRoot string, log *os.File) (int, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	if err := closeOnExec(); err != nil {
		return 0, err
	}
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: "/", Env: env, Files: []*os.File{null, null, log}, Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		return 0, err
	}
	pid := p.Pid
	go func() { _, _ = p.Wait() }() // a zombie of a podrun that stays would count as dead anyway
	raiseLimits(pid)
	if err := ownCgroups(l, cgroupRoot, pid); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL) // it has started nothing yet
		return 0, err
	}
	return pid, nil
}

// closeOnExec keeps descriptors that podrun has inherited, such as a lock of a script
// or the pipe of a CI job, from the daemon. Go's own are marked already.
func closeOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC) // closed since then: that of the listing
		}
	}
	return nil
}

// raiseLimits sets the daemon's limits, whoever starts it. Without CAP_SYS_RESOURCE a hard
// limit cannot be raised, which is no reason not to start.
func raiseLimits(pid int) {
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: softFiles, Max: openFiles}, nil) == nil {
		return
	}
	var have unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &have) == nil {
		have.Cur = min(softFiles, have.Max)
		_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &have, nil)
	}
}

// ownCgroups moves the daemon into a control group of its own in each hierarchy: a
// supervisor that kills all of its own group must not kill the runtime with it. Its
// first threads are the only ones yet. A cpuset of v1 takes no process before it has
// processors, and bounds nothing here.
func ownCgroups(l Layout, cgroupRoot string, pid int) error {
	groups, err := cgroups(l, cgroupRoot)
	if err != nil {
		return err
	}
	for _, dir := range groups {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make a cgroup of its own: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move it into a cgroup of its own: %w", err)
		}
	}
	return nil
}

// cgroups are the daemon's control groups, one in each hierarchy but cpuset: below
// --cgroup-root where that is a group already, else at the top.
func cgroups(l Layout, cgroupRoot string) ([]string, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("read the mounts of cgroups: %w", err)
	}
	var out []string
	for _, m := range mounts {
		if slices.Contains(strings.Split(m.VFSOptions, ","), "cpuset") || !strings.HasPrefix(m.Mountpoint, "/sys/fs/cgroup") {
			continue
		}
		parent := filepath.Join(m.Mountpoint, filepath.Clean("/"+cgroupRoot))
		if _, err := os.Stat(parent); err != nil {
			parent = m.Mountpoint
		}
		out = append(out, filepath.Join(parent, l.Cgroup()))
	}
	if len(out) == 0 {
		return nil, errors.New("no cgroups are mounted at /sys/fs/cgroup")
	}
	return out, nil
}
