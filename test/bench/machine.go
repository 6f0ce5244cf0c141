package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/test/bench/result"
)

// newResult returns a run without rows: this machine, and the versions of the programs. A program that
// is not installed has no version. If client is nil, the runtime has none.
func newResult(ctx context.Context, o options, client *runtimeClient) (result.Result, error) {
	r := result.Result{Target: o.target, Time: time.Now().UTC().Truncate(time.Second), Versions: map[string]string{"Go": strings.TrimPrefix(runtime.Version(), "go")}}
	var err error
	if r.Machine, err = machine(); err != nil {
		return r, err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return r, err
	}
	r.Kernel = unix.ByteSliceToString(name.Release[:])
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return r, err
	}
	r.Load = strings.Join(strings.Fields(string(load))[:3], " ")
	// A copy of the source without git has no commit.
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12").Output(); err == nil {
		r.Commit = string(bytes.TrimSpace(out))
	}
	for _, program := range []string{"podman", "nerdctl", "runc", "crun"} {
		if v := versionOf(ctx, program); v != "" {
			r.Versions[program] = v
		}
	}
	if root := os.Getenv(podman5Root); root != "" {
		if v := versionOf(ctx, "chroot", root, "podman"); v != "" {
			r.Versions["podman 5"] = v
		}
	}
	if client != nil {
		v, err := client.runtime.Version(ctx, &runtimeapi.VersionRequest{})
		if err != nil {
			return r, err
		}
		r.Versions[v.RuntimeName] = v.RuntimeVersion
	}
	return r, nil
}

// versionOf returns the version in the first line that a program prints, such as 1.1.5 in "runc version
// 1.1.5+ds1"; or "" if it does not run.
func versionOf(ctx context.Context, program ...string) string {
	out, err := exec.CommandContext(ctx, program[0], append(program[1:], "--version")...).Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(out), "\n")
	words := strings.Fields(line)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// machine describes the processors and the memory.
func machine() (string, error) {
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	model := runtime.GOARCH
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d × %s, %.0f GB", runtime.NumCPU(), model, float64(info.Totalram)*float64(info.Unit)/1e9), nil
}

// finish completes a run: it prints it as JSON if the user wants that, and writes its file if -results
// names a directory.
func finish(r result.Result, o options) error {
	r.Seconds = time.Since(r.Time).Truncate(time.Second).Seconds()
	if o.json {
		data, err := r.Encode()
		if err != nil {
			return err
		}
		if _, err := os.Stdout.Write(data); err != nil {
			return err
		}
	}
	if o.results == "" {
		return nil
	}
	path, err := result.Write(o.results, r)
	if err == nil {
		fmt.Fprintf(os.Stderr, "bench: wrote %s; 'make bench-docs' updates the documentation\n", filepath.Clean(path))
	}
	return err
}
