// Package userns manages the namespaces of an ordinary user from outside (docs/design/rootless.md): it finds a
// process through which podrun can enter them, starts podrun-rootless, which keeps them, and ends the processes that
// remain of dead ones.
package userns

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/rootless"
)

// Process is a process in the namespaces.
type Process struct {
	PID       int
	StartTime uint64
}

// Find returns a process of the runtimes below a run directory, other than podrun-rootless, that is in another user
// namespace than this process: containerd or a shim. It returns nil if there is none. podrun-rootless must then be
// started inside, because a second user namespace could neither see the pods of the first one nor end them.
func Find(runDir string) *Process {
	own, err := namespace(os.Getpid())
	if err != nil {
		return nil
	}
	var found *Process
	eachProcess(func(pid int) bool {
		ns, err := namespace(pid)
		if err != nil || ns == own || !servesRuntime(pid, runDir) {
			return true
		}
		if state, started, ok := rootless.Stat(pid); ok && state != "Z" && state != "X" {
			found = &Process{PID: pid, StartTime: started}
		}
		return found == nil
	})
	return found
}

// Programs of the runtime in the archive (embedded/archive).
const (
	containerd = "containerd"
	shim       = "containerd-shim-runc-v2"
)

// servesRuntime reports whether a process is a containerd, or a shim, of a runtime below a run directory. Shims have
// the path of containerd's socket on their command lines; containerd has that of its configuration, which is in the
// root directory.
func servesRuntime(pid int, runDir string) bool {
	line, err := os.ReadFile(procFile(pid, "cmdline"))
	if err != nil {
		return false
	}
	args := strings.Split(string(line), "\x00")
	switch filepath.Base(args[0]) {
	case shim:
		return strings.Contains(string(line), "\x00"+runDir+"/")
	case containerd:
		return isDaemon(pid, runDir)
	}
	return false
}

// isDaemon reports whether a process is recorded as the containerd of a root directory.
func isDaemon(pid int, runDir string) bool {
	dirs, _ := hostfile.Entries(runDir, "", "") // after an error, the entries that were read
	for _, dir := range dirs {
		data, err := os.ReadFile(filepath.Join(dir, "daemon.json"))
		var daemon struct {
			PID int `json:"pid"`
		}
		if err == nil && json.Unmarshal(data, &daemon) == nil && daemon.PID == pid {
			return true
		}
	}
	return false
}

// Strays returns the processes that remain of the dead namespaces that a record describes, such as containers whose
// shims were killed. They have subordinate IDs, so a process in new namespaces could not end them, but the user can.
// Other programs of the user also create user namespaces, and the kernel reuses their numbers: a stray has a mount of
// the run directory or of a runtime, too.
func Strays(record *rootless.Record, dirs []string) []Process {
	if record == nil {
		return nil
	}
	want := "user:[" + strconv.FormatUint(record.UserNamespace, 10) + "]"
	var out []Process
	eachProcess(func(pid int) bool {
		if ns, err := namespace(pid); err != nil || ns != want || !mounts(pid, dirs) {
			return true
		}
		if state, started, ok := rootless.Stat(pid); ok && state != "Z" && state != "X" {
			out = append(out, Process{PID: pid, StartTime: started})
		}
		return true
	})
	return out
}

// mounts reports whether the list of a process's mounts mentions one of the directories.
func mounts(pid int, dirs []string) bool {
	data, err := os.ReadFile(procFile(pid, "mountinfo"))
	for _, dir := range dirs {
		if err == nil && strings.Contains(string(data), dir+"/") {
			return true
		}
	}
	return false
}

// End kills processes, and waits until they have exited.
func End(all []Process) error {
	for _, p := range all {
		fd, err := unix.PidfdOpen(p.PID, 0)
		if err == unix.ESRCH {
			continue
		}
		if err != nil {
			return &os.SyscallError{Syscall: "pidfd_open", Err: err}
		}
		if rootless.Runs(p.PID, p.StartTime) {
			err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
		}
		if err == nil {
			_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, endWithin)
		}
		_ = unix.Close(fd)
		if err != nil && err != unix.ESRCH && err != unix.EINTR {
			return &os.SyscallError{Syscall: "kill", Err: err}
		}
	}
	return nil
}

// endWithin is the time in which a process exits after SIGKILL, in ms.
const endWithin = 5000

// RootRuns reports whether another user, usually root, runs podrun's embedded runtime in the default directory or podrun
// serve on this host.
func RootRuns() bool {
	found := false
	eachProcess(func(pid int) bool {
		var st unix.Stat_t
		line, err := os.ReadFile(procFile(pid, "cmdline"))
		if err == nil && isRootsPodrun(string(line)) && unix.Stat(procFile(pid, ""), &st) == nil {
			found = int(st.Uid) != os.Geteuid()
		}
		return !found
	})
	return found
}

// isRootsPodrun reports whether a command line is that of the embedded runtime of root's default directory, or of podrun
// serve.
func isRootsPodrun(line string) bool {
	args := strings.Split(strings.TrimRight(line, "\x00"), "\x00")
	if strings.HasPrefix(args[0], "/var/lib/podrun/runtime/") {
		return true
	}
	return strings.HasPrefix(filepath.Base(args[0]), "podrun") && len(args) > 1 && args[1] == "serve"
}

// namespace returns the user namespace of a process, as the text of the link in /proc. A process that this user may
// not inspect has an error.
func namespace(pid int) (string, error) { return os.Readlink(procFile(pid, "ns/user")) }

// eachProcess calls f for each process until f returns false.
func eachProcess(f func(pid int) bool) {
	entries, _ := hostfile.Entries("/proc", "", "") // after an error, the processes that were listed
	for _, path := range entries {
		if pid, err := strconv.Atoi(filepath.Base(path)); err == nil && !f(pid) {
			return
		}
	}
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}
