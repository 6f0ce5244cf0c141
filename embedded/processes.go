package embedded

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podrun/podrun/internal/hostfile"
)

// readRunning lists the processes that run a program of an unpacked archive, and the shims of
// this host that serve its containerd (without a digest). The list contains the descendants of each process, such as
// the containers of a shim, after the process. Like a daemon, each process is identified by its PID and its start
// time.
func readRunning(l Layout) ([]Daemon, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	dir, err := filepath.EvalSymlinks(l.Dir())
	if err != nil {
		// The directory is gone, but a process may still be running.
		dir = l.Dir()
	}
	var out []Daemon
	children := map[int][]int{}
	own := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if parent, err := parentOf(pid); err == nil {
			children[parent] = append(children[parent], pid)
		}
		if exe, err := os.Readlink(procFile(pid, "exe")); err == nil {
			if digest, ok := recognize(l, dir, pid, exe); ok {
				own[pid] = digest
			}
		}
	}
	seen := map[int]bool{}
	var add func(pid int, digest string)
	add = func(pid int, digest string) {
		if state, started, err := readStat(pid); err == nil && state != "Z" && !seen[pid] {
			seen[pid] = true
			out = append(out, Daemon{PID: pid, StartTime: started, Digest: digest})
			for _, child := range children[pid] {
				add(child, digest)
			}
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(own)) {
		add(pid, own[pid])
	}
	return out, nil
}

// recognize reports whether a process belongs to the layout's runtime, and returns the digest of its archive.
// dir is the real path of the layout's directory, and exe is the path of the program. If the path does not
// contain the digest, recognize takes it from the command line, which has the path at the start of the process.
func recognize(l Layout, dir string, pid int, exe string) (digest string, ok bool) {
	digest, ok = archiveOf(dir, exe)
	if ok && strings.TrimSuffix(filepath.Base(exe), deletedSuffix) == rootlessProgram {
		return "", false // it serves the runtimes of all root directories of the user, and ends last
	}
	if !ok {
		return "", isHostShim(l, pid, exe)
	}
	if line, err := os.ReadFile(procFile(pid, "cmdline")); err == nil && digest == "" {
		program, _, _ := strings.Cut(string(line), "\x00")
		digest, _ = archiveOf(l.Dir(), program)
	}
	return digest, runs(l, pid, exe)
}

// rootlessProgram is the name of the program that keeps the namespaces of an ordinary user.
const rootlessProgram = "podrun-rootless"

// procFile returns the path of a file of a process.
func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

// runs reports whether a process runs a program of this layout. The process must already have the path of such a
// program; runs checks that it is the same file, because podrun in a container with the same root directory has
// programs with the same paths. If the program was removed, the command line identifies the process.
func runs(l Layout, pid int, exe string) bool {
	if path, removed := strings.CutSuffix(exe, deletedSuffix); removed {
		line, err := os.ReadFile(procFile(pid, "cmdline"))
		return err == nil && path != "" && (strings.Contains(string(line), l.Socket()) || strings.Contains(string(line), l.Config()))
	}
	its, err := os.Stat(procFile(pid, "exe"))
	ours, oerr := os.Stat(exe)
	return err == nil && oerr == nil && os.SameFile(its, ours)
}

// isHostShim reports whether a process is a shim of this host whose containerd is this runtime's:
// containerd passes its socket on the command line.
func isHostShim(l Layout, pid int, exe string) bool {
	if !strings.HasPrefix(filepath.Base(exe), kataShim) {
		return false
	}
	line, err := os.ReadFile(procFile(pid, "cmdline"))
	return err == nil && strings.Contains(string(line), "\x00"+l.Socket()+"\x00")
}

// readShimDigests lists the archives whose shims containers use. containerd requires the
// program of a shim to clean up after the shim has exited.
func readShimDigests(l Layout) []string {
	// After an error, podrun uses the tasks that were read.
	tasks, _ := hostfile.Entries(filepath.Join(l.Tasks(), "io.containerd.runtime.v2.task", "k8s.io"), "", "")
	var out []string
	for _, dir := range tasks {
		if data, err := os.ReadFile(filepath.Join(dir, "shim-binary-path")); err == nil {
			if digest, _ := archiveOf(l.Dir(), strings.TrimSpace(string(data))); digest != "" {
				out = append(out, digest)
			}
		}
	}
	return out
}

// parentOf returns the parent of a process (proc_pid_stat(5)).
func parentOf(pid int) (int, error) {
	data, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	return strconv.Atoi(fields[1])
}
