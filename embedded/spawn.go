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

// The limits for open files of containerd, its shims and containers. They are systemd's
// defaults. containerd's own unit keeps these since containerd 2.0. With higher limits,
// programs that close or poll all possible descriptors would be slow. containerd itself raises
// its soft limit.
const (
	softFiles = 1024
	openFiles = 512 << 10
)

// On hosts without systemd, and for an ordinary user, spawnProcess starts containerd in a separate session, so that
// containerd survives when the terminal is closed or when podrun's process group is killed. It inherits no
// descriptor except the log.
func spawnProcess(argv, env []string, log *os.File) (int, error) {
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
	// Wait reaps the process. Its result is not needed, because a zombie counts as exited.
	go func() { _, _ = p.Wait() }()
	raiseLimits(pid)
	return pid, nil
}

// closeOnExec prevents the daemon from inheriting descriptors that podrun itself has inherited,
// such as a script's lock or a CI job's pipe. Go's own descriptors already are close-on-exec.
func closeOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list the descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			// The call fails for the descriptor of the listing, which has been closed.
			_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
		}
	}
	return nil
}

// raiseLimits sets the limits of the daemon, so that they do not depend on its parent. Without
// CAP_SYS_RESOURCE, it cannot raise a hard limit. podrun then starts the daemon anyway.
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

// ownCgroups moves the daemon into its own cgroup in each hierarchy, or ends it. Otherwise a supervisor
// that kills its whole cgroup would kill the runtime. At this time, the daemon has only its
// first threads. ownCgroups omits the v1 cpuset hierarchy: a cpuset cgroup accepts no process
// before its processors are set, and would not limit the daemon.
func ownCgroups(l Layout, cgroupRoot string, pid int) (err error) {
	defer func() {
		if err != nil {
			// It has not started any process yet.
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}()
	groups, err := cgroups(l, cgroupRoot)
	if err != nil {
		return err
	}
	for _, dir := range groups {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("create its cgroup: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("move it into its cgroup: %w", err)
		}
	}
	return nil
}

// cgroups returns the daemon's cgroups, one in each hierarchy except cpuset. They are below
// --cgroup-root if that cgroup exists, or else at the top.
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
