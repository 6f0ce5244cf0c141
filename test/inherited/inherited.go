// Package inherited makes tests independent of the state that the test process inherits from its
// parent: ignored signals (nohup), umask, open files, environment, locale and the directory of temporary files.
package inherited

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Reset replaces inherited state with the state that tests expect. A TestMain calls it first, if
// the tests of the package start processes or change the permissions of files.
func Reset() {
	syscall.Umask(0o022)
	resetSignals()
	resetEnvironment()
	keepDescriptors()
}

// keepDescriptors marks the open files beyond standard error as close-on-exec, so that a process that the tests
// start does not have them: it may have a low limit of descriptors.
func keepDescriptors() {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}

// resetSignals lets the processes that the tests start handle SIGHUP and SIGINT. For other signals,
// package os/exec resets the disposition anyway. A process that is started while a signal is caught
// begins with the default disposition; the test process itself continues to ignore the signal.
func resetSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// resetEnvironment unsets variables that would change what podrun and other programs do.
func resetEnvironment() {
	onRuntime := os.Getenv("PODRUN_TEST_IMAGE") != ""
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); !kept(name, onRuntime) {
			os.Unsetenv(name)
		}
	}
	os.Setenv("LANG", "C.UTF-8")
	// Some tests start processes of other users, which must reach the files of the test.
	if dir := tempDir(os.TempDir(), "/tmp", "/var/tmp"); dir != os.TempDir() {
		os.Setenv("TMPDIR", dir)
	}
	if !reachable(os.Getenv("GOTMPDIR")) {
		os.Unsetenv("GOTMPDIR")
	}
}

// exported are the variables that hack/runtime and hack/crio print, and that select the real
// runtime of the tests.
var exported = []string{"CONTAINER_RUNTIME_ENDPOINT", "PODRUN_CONTAINER_RUNTIME_ENDPOINT", "PODRUN_CONFIG", "PODRUN_ROOT_DIR", "PODRUN_CGROUP_ROOT",
	"PODRUN_CGROUP_DRIVER", "PODRUN_EVICTION_HARD", "PODRUN_POD_LOGS_DIR", "PODRUN_CONTAINER_LOGS_DIR"}

// knobs are prefixes of variables that only tests read.
var knobs = []string{"TEST_", "CRASH_", "DAMAGE_", "FAULT_", "HOSTILE_", "JOB_", "SHOP_", "SEED", "SHARED", "TORTURE", "TRIAL", "CONTAINERD", "CRIO", "PINNS", "RUNTIME_DIR"}

// kept reports whether a variable keeps its value. onRuntime is true if the environment selects a
// real runtime.
func kept(name string, onRuntime bool) bool {
	setting, podruns := strings.CutPrefix(name, "PODRUN_")
	for _, e := range exported {
		if name == e {
			return onRuntime
		}
	}
	if podruns {
		for _, k := range knobs {
			if strings.HasPrefix(setting, k) {
				return true
			}
		}
		return false
	}
	switch name {
	case "DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "LANG", "LANGUAGE", "NO_COLOR", "TZ":
		return false
	}
	return !strings.HasPrefix(name, "LC_")
}

// tempDir returns the first of the directories that other users can reach and in which this user
// can create files. If there is none, it returns the first directory.
func tempDir(dirs ...string) string {
	for _, dir := range dirs {
		if !reachable(dir) {
			continue
		}
		if made, err := os.MkdirTemp(dir, "podrun-test-"); err == nil {
			os.Remove(made)
			return dir
		}
	}
	return dirs[0]
}

// reachable reports whether each user can reach a directory.
func reachable(dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) {
		return false
	}
	for ; ; dir = filepath.Dir(dir) {
		is, err := os.Stat(dir)
		if err != nil || !is.IsDir() || is.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}
