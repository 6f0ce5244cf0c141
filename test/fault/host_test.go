package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/ring"
)

// shortage describes a host on which a resource that podrun requires is missing or limited, or that
// has an extreme configuration.
type shortage struct {
	name string
	// before are shell commands that run before podrun, in separate network, mount and UTS
	// namespaces. $DIR is a directory.
	before string
	env    []string
	group  map[string]string // values of files of podrun's cgroup, by file name
	refuse refusal
	codes  []int // permitted exit codes of the command
	// If rare is set, the test tries the shortage only in ring 3.
	rare bool
}

var (
	// failed lists the permitted exit codes of a command that the shortage may affect.
	failed = []int{0, 125}
	// crashed lists the exit codes of a process that cannot allocate memory or a thread: either
	// the kernel kills it (-1), or the Go runtime exits with 2.
	crashed = []int{-1, 0, 2, 125}
)

func shortages() []shortage {
	var out []shortage
	for n := 4; n <= 40; n++ {
		codes := failed
		if n < 8 {
			// The Go runtime itself needs two descriptors. The descriptors that podrun inherits from
			// the test's process also count.
			codes = crashed
		}
		out = append(out, shortage{name: fmt.Sprintf("%d descriptors", n), before: fmt.Sprintf("ulimit -n %d", n), codes: codes, rare: n%9 != 5})
	}
	for n := 2; n <= 14; n += 2 {
		out = append(out, shortage{name: fmt.Sprintf("%d processes", n), group: map[string]string{"pids.max": fmt.Sprint(n)}, codes: crashed, rare: n != 6})
	}
	for n := 200; n <= 1600; n *= 2 {
		out = append(out, shortage{name: fmt.Sprintf("%d MiB of addresses", n), before: fmt.Sprintf("ulimit -v %d", n<<10), codes: crashed, rare: n != 800})
	}
	// With so little memory, the kernel repeatedly reads the program's pages.
	for n := 8; n <= 48; n += 8 {
		limit := fmt.Sprint(n << 20)
		out = append(out, shortage{name: fmt.Sprintf("%d MiB of memory", n), group: map[string]string{"memory.limit_in_bytes": limit, "memory.max": limit}, codes: crashed, rare: true})
	}
	for _, errno := range []unix.Errno{unix.EDQUOT, unix.ENOSPC} {
		for _, call := range []string{"create", "mkdir", "rename", "fsync", "symlink"} {
			out = append(out, shortage{name: unix.ErrnoName(errno) + " of " + call, refuse: refusal{call, errno}, codes: failed,
				rare: errno != unix.EDQUOT})
		}
	}
	ok := []int{0}
	return append(out,
		shortage{name: "no default route", before: "ip link set lo up", codes: ok},
		shortage{name: "no network interface", before: "true", codes: ok, rare: true},
		shortage{name: "no resolv.conf", before: "mount -t tmpfs none /etc", codes: ok, rare: true},
		shortage{name: "resolv.conf of 1 MB", before: `yes "search example.org" | head -c 1000000 >$DIR/resolv.conf`, env: []string{"PODRUN_RESOLV_CONF=$DIR/resolv.conf"}, codes: ok, rare: true},
		shortage{name: "a hostname of 64 characters", before: "hostname " + strings.Repeat("a", 64), env: []string{"PODRUN_HOSTNAME_OVERRIDE="}, codes: ok, rare: true},
	)
}

// TestHost runs apply and delete on hosts with a shortage. The command must exit in time, with a
// correct code and a message that names an object. When all resources are available, the next
// commands must converge.
func TestHost(t *testing.T) {
	ring.RequireRoot(t)
	codes := map[int]int{}
	t.Run("cells", func(t *testing.T) {
		for _, s := range shortages() {
			if s.rare && !ring.Is(3) {
				continue
			}
			for _, command := range []string{"apply", "delete"} {
				t.Run(command+"/"+s.name, func(t *testing.T) { codes[s.try(t, command)]++ })
			}
		}
	})
	fmt.Printf("shortages of the host: codes %v\n", codes)
}

// try runs a command with the shortage, and then the next commands without it.
func (s shortage) try(t *testing.T, command string) (code int) {
	h, end, err := newHost(profiles[0])
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	args, holds := []string{"apply", filepath.Join(h.dir, "one.yaml")}, h.runs
	if command == "delete" {
		args, holds = []string{"delete", "web"}, h.gone
		if r := h.podrun(t.Context(), nil, "apply", "one.yaml"); r.code != 0 {
			t.Fatalf("prepare: code %d: %s", r.code, r.err)
		}
	}
	r := h.short(t, s, append(args, "--timeout", slowLimit.String())...)
	t.Logf("code %d after %v: %s", r.code, r.took.Round(time.Millisecond), last(r.err))
	if !slices.Contains(s.codes, r.code) {
		t.Errorf("code %d, want one of %v: %s", r.code, s.codes, r.err)
	}
	if r.code == 125 && !names(r.err) && !strings.Contains(r.err, "podrun: host: ") && !strings.Contains(r.err, h.dir) {
		t.Errorf("the error names no object: %s", r.err)
	}
	if r.took > slowLimit {
		t.Errorf("the command took %v", r.took)
	}
	if r.code == 0 {
		if err := holds(); err != nil {
			t.Errorf("code 0, but %v", err)
		}
	}
	if command == "apply" {
		if n := h.podrun(t.Context(), nil, "apply", "one.yaml", "--timeout", slowLimit.String()); n.code != 0 || h.runs() != nil {
			t.Errorf("the next apply: code %d, %v: %s", n.code, h.runs(), n.err)
		}
	}
	if n := h.podrun(t.Context(), nil, "delete", "web", "--ignore-not-found", "--timeout", slowLimit.String()); n.code != 0 || h.gone() != nil {
		t.Errorf("the next delete: code %d, %v: %s", n.code, h.gone(), n.err)
	}
	return r.code
}

// short runs a command on a host with the shortage s.
func (h *host) short(t *testing.T, s shortage, args ...string) result {
	ctx, cancel := context.WithTimeout(t.Context(), killAfter)
	defer cancel()
	c := h.process(ctx, s.refuse.env(), args...)
	dir := strings.NewReplacer("$DIR", h.dir)
	for _, v := range s.env {
		c.Env = append(c.Env, dir.Replace(v))
	}
	script := dir.Replace(s.before)
	if len(s.group) > 0 {
		script = h.inGroup(t, s.group)
	}
	if script == "" {
		return output(c)
	}
	c.Args = append([]string{"sh", "-c", script + ` && exec "$@"`, "sh", os.Args[0]}, c.Args[1:]...)
	c.Path = "/bin/sh"
	if len(s.group) == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS,
			// This flag also makes the mounts private.
			Unshareflags: syscall.CLONE_NEWNS}
	}
	return output(c)
}

// inGroup creates a cgroup with the given values, and returns a shell script that enters it.
func (h *host) inGroup(t *testing.T, values map[string]string) (script string) {
	for name, value := range values {
		controller, _, _ := strings.Cut(name, ".")
		for _, parent := range []string{"/sys/fs/cgroup/" + controller, "/sys/fs/cgroup"} {
			dir := filepath.Join(parent, filepath.Base(h.dir))
			if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err != nil {
				continue // the file belongs to the other cgroup version
			}
			if os.Mkdir(dir, 0o755) == nil {
				t.Cleanup(func() { removeGroup(t, dir) })
			}
			file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
			if err != nil {
				continue // the directory was already added
			}
			if _, err := file.WriteString(value); err == nil {
				script = "echo $$ >" + dir + "/cgroup.procs"
			}
			file.Close()
		}
	}
	if script == "" {
		t.Skip("this host has no such controller")
	}
	return script
}

// removeGroup removes a cgroup whose processes have exited.
func removeGroup(t *testing.T, dir string) {
	var err error
	for range 100 {
		if err = os.Remove(dir); err == nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error(err)
}
