package userns

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/test/ring"
)

// child starts a process in a new user namespace that looks like a program, with arguments, until the test ends.
func child(t *testing.T, arguments ...string) *exec.Cmd {
	t.Helper()
	ring.RequireRoot(t)
	c := exec.Command("/bin/sleep", "1000")
	c.Args = append(arguments[:1:1], "1000")
	// sleep accepts several numbers: the others are arguments of the program.
	if len(arguments) > 1 {
		c = exec.Command("/bin/sh", append([]string{"-c", "kill -STOP $$"}, arguments[1:]...)...)
		c.Args[0] = arguments[0]
	}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL, UidMappings: []syscall.SysProcIDMap{{Size: 1, HostID: os.Getuid()}}}
	if err := c.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	return c
}

// TestFind checks which processes lead into the namespaces of a run directory.
func TestFind(t *testing.T) {
	run := t.TempDir()
	if got := Find(run); got != nil {
		t.Fatalf("found %v", got)
	}
	child(t, "/x/bin/containerd-shim-runc-v2", "-address", run+"x/1/containerd.sock") // of another run directory
	child(t, "/x/bin/other", "-address", run+"/1/containerd.sock")
	if got := Find(run); got != nil {
		t.Fatalf("found %v", got)
	}
	shimProcess := child(t, "/x/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-address", run+"/1/containerd.sock")
	if got := Find(run); got == nil || got.PID != shimProcess.Process.Pid {
		t.Errorf("found %v, want the shim %d", got, shimProcess.Process.Pid)
	}
}

// TestFindDaemon checks that containerd is found by its record.
func TestFindDaemon(t *testing.T) {
	run := t.TempDir()
	daemon := child(t, "/x/bin/containerd", "--config", "/x/config.toml")
	if got := Find(run); got != nil {
		t.Fatalf("found %v without a record", got)
	}
	if err := os.MkdirAll(filepath.Join(run, "12345678"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(run, "12345678", "daemon.json"), []byte(`{"pid": `+strconv.Itoa(daemon.Process.Pid)+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Find(run); got == nil || got.PID != daemon.Process.Pid {
		t.Errorf("found %v, want containerd %d", got, daemon.Process.Pid)
	}
}

// TestStrays checks that only processes of the dead namespace that have podrun's mounts are strays: the kernel reuses
// the numbers of namespaces.
func TestStrays(t *testing.T) {
	c := child(t, "/x/bin/other", "x")
	ns, err := namespace(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseUint(strings.Trim(ns, "user:[]"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	record := &rootless.Record{UserNamespace: number}
	if got := Strays(record, []string{"/no-mount-has-this"}); len(got) > 0 {
		t.Errorf("a process of another program is a stray: %v", got)
	}
	mounted := []string{"/proc", "/"}
	got := Strays(record, append(mounted, ""))
	if len(got) != 1 || got[0].PID != c.Process.Pid {
		t.Fatalf("the strays are %v, want %d", got, c.Process.Pid)
	}
	if err := End(got); err != nil {
		t.Fatal(err)
	}
	if rootless.Runs(got[0].PID, got[0].StartTime) {
		t.Error("the stray runs")
	}
	if err := End(got); err != nil {
		t.Errorf("a second call: %v", err)
	}
	if Strays(nil, mounted) != nil {
		t.Error("strays without a record")
	}
}

// TestMakeRunDir checks that podrun refuses a directory that another user could have made.
func TestMakeRunDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := MakeRunDir(dir); err != nil {
		t.Fatal(err)
	}
	if err := MakeRunDir(dir); err != nil {
		t.Errorf("a second call: %v", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link, filepath.Join(dir, "a", "b")} {
		e, ok := errors.AsType[*problem.Error](MakeRunDir(path))
		if !ok || e.Hint == "" {
			t.Errorf("%s: %v", path, e)
		}
	}
}

// TestStart checks the answers of podrun-rootless.
func TestStart(t *testing.T) {
	for script, want := range map[string]string{
		`echo '{"ready": true}' >&3`:                                "",
		`echo '{"error": "no namespaces", "hint": "ask root"}' >&3`: "podrun-rootless: start it: no namespaces; ask root",
		`echo died >&2; exit 1`:                                     "podrun-rootless: start it: it exited: died",
		`echo x >&3`:                                                "podrun-rootless: start it: its answer is invalid",
	} {
		o := Options{RunDir: t.TempDir(), Bin: t.TempDir()}
		if err := os.WriteFile(filepath.Join(o.Bin, keeper), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, err := Start(t.Context(), o)
		got := ""
		if e, ok := errors.AsType[*problem.Error](err); ok {
			got = e.Error() + "; " + e.Hint
		}
		if !strings.HasPrefix(got, want) || (want == "") != (err == nil) {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

func TestIsRootsPodrun(t *testing.T) {
	for line, want := range map[string]bool{
		"/var/lib/podrun/runtime/1/bin/containerd\x00--config\x00x\x00": true,
		"/usr/bin/podrun\x00serve\x00":                                  true,
		"/usr/bin/podrun\x00get\x00":                                    false,
		"/usr/bin/containerd\x00":                                       false,
		"":                                                              false,
	} {
		if got := isRootsPodrun(line); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}
