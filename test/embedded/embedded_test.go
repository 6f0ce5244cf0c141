package embedded

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	embed "github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

const hostArch = runtime.GOARCH

// kill kills a daemon with SIGKILL, as the kernel does if memory is short.
func (r *rig) kill() {
	r.Helper()
	d := r.daemon()
	if err := syscall.Kill(d.PID, syscall.SIGKILL); err != nil {
		r.Fatal(err)
	}
	r.until("the killed daemon has ended", func() bool { return !d.Alive() })
}

func TestAPodFromNothing(t *testing.T) {
	r := newRig(t)
	r.fails(125, "has not been used yet", "get")
	out := r.must("apply", "pod.yaml", "--trace")
	for _, want := range []string{"using the embedded container runtime, in " + r.layout.Dir(), "pod/web created", "unpack or verify the embedded runtime", "start containerd", "load image archives"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in what apply wrote:\n%s", want, out)
		}
	}
	r.answers()
	if out := r.must("apply", "pod.yaml"); out != "pod/web unchanged\n" {
		t.Errorf("the second apply wrote\n%s", out)
	}
	if out := r.must("get"); !strings.Contains(out, "Running") {
		t.Errorf("get wrote\n%s", out)
	}
	if out := r.must("exec", "web", "--", "echo", "inside"); out != "inside\n" {
		t.Errorf("exec wrote\n%s", out)
	}
	r.must("logs", "web")
	if out, _ := r.run(bundle, "doctor"); !strings.Contains(out, "pass  cni ") {
		t.Errorf("doctor does not find the network's plugins:\n%s", out)
	}
	// A podrun binary without an archive uses the recorded archive that was unpacked earlier.
	if out, err := r.run(plain, "get"); err != nil || !strings.Contains(out, "web") {
		t.Errorf("podrun without an archive: %v\n%s", err, out)
	}
	r.fails(122, "1 pods use it: default/web", "runtime", "down")
	r.fails(122, "pods of this root directory use the embedded runtime: default/web", "apply", "pod.yaml", "--runtime=unix:///run/none.sock")
	r.must("delete", "web")
	if out := r.must("runtime", "down"); out != "runtime removed\n" {
		t.Errorf("down wrote\n%s", out)
	}
	if left := r.processes(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	r.must("runtime", "down") // a second call has no effect
	if _, err := os.Stat(filepath.Join(r.layout.Images(), "busybox.tar")); err != nil {
		t.Errorf("the user's archive is gone: %v", err)
	}
}

func TestTheDaemonIsItsOwn(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	lock, err := os.Create(filepath.Join(r.dir, "inherited"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	c := r.command(bundle, "runtime", "up")
	c.Env = append(c.Env, "RUNNER_TRACKING_ID=job-1", "HTTPS_PROXY=http://127.0.0.1:1")
	c.ExtraFiles = []*os.File{lock}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at := filepath.Join("/proc", itoa(r.daemon().PID))
	env, err := os.ReadFile(filepath.Join(at, "environ"))
	if err != nil || strings.Contains(string(env), "RUNNER_TRACKING_ID") || strings.Contains(string(env), "PODRUN_") || !strings.Contains(string(env), "HTTPS_PROXY=http://127.0.0.1:1") {
		t.Errorf("its environment is %q, %v", env, err)
	}
	fds, err := filepath.Glob(filepath.Join(at, "fd", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.Contains(to, "inherited") {
			t.Errorf("it has inherited %s", to)
		}
	}
	groups, err := os.ReadFile(filepath.Join(at, "cgroup"))
	if err != nil || !strings.Contains(string(groups), r.layout.Cgroup()) {
		t.Errorf("its control groups are\n%s%v", groups, err)
	}
	if session, err := getsid(r.daemon().PID); err != nil || session != r.daemon().PID {
		t.Errorf("its session is %d, %v", session, err)
	}
}

func TestADaemonThatWasKilledIsStartedAgain(t *testing.T) {
	r := newRig(t)
	r.must("apply", "pod.yaml")
	r.kill()
	if out := r.must("get"); !strings.Contains(out, "Running") {
		t.Errorf("get wrote\n%s", out)
	}
	r.answers()
	// serve restarts the runtime even if no command is running.
	c := r.command(bundle, "serve", r.dir+"/none")
	if err := os.Mkdir(filepath.Join(r.dir, "none"), 0o755); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait(); t.Logf("serve wrote\n%s", said.String()) }()
	r.until("serve runs", func() bool {
		out, err := r.run(bundle, "runtime", "down")
		return err != nil && strings.Contains(out, "podrun serve uses it")
	})
	before := r.daemon().PID
	r.kill()
	var status string
	defer func() { t.Logf("runtime status wrote\n%s", status) }()
	r.until("serve has started it again", func() bool {
		var err error
		status, err = r.run(bundle, "runtime", "status", "-o", "json")
		d := embed.ReadDaemon(t.Context(), r.layout)
		return err == nil && strings.Contains(status, `"state": "running"`) && d.Alive() && d.PID != before
	})
	r.answers()
}

func (r *rig) until(what string, holds func() bool) {
	r.Helper()
	patience.Wait(r, patience.OnRuntime, "not so: "+what, holds)
}

// reboot simulates a reboot: it kills all processes of the runtime, and empties /run.
func (r *rig) reboot() {
	r.Helper()
	r.kill()
	for _, line := range r.processes() { // these are shims
		pid := strings.Split(line, "/")[2]
		children, err := os.ReadFile("/proc/" + pid + "/task/" + pid + "/children")
		if err != nil {
			r.Fatal(err)
		}
		for _, p := range append(strings.Fields(string(children)), pid) {
			// The process may have already exited together with another one.
			_ = exec.Command("kill", "-9", p).Run()
		}
	}
	r.until("nothing is mounted", func() bool {
		data, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			r.Fatal(err)
		}
		left := 0
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); strings.HasPrefix(f[4], r.layout.State()) {
				_ = syscall.Unmount(f[4], syscall.MNT_DETACH)
				left++
			}
		}
		return left == 0
	})
	if err := os.RemoveAll(r.layout.State()); err != nil {
		r.Fatal(err)
	}
}

func TestAfterAReboot(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("apply", "pod.yaml")
	r.reboot()
	r.fails(125, "has not been started since this host booted", "get")
	r.fails(125, "podrun runtime up", "delete", "web")
	if out := r.must("apply", "pod.yaml"); !strings.Contains(out, "pod/web restarted") {
		t.Errorf("apply wrote\n%s", out)
	}
	r.answers()
}

func TestTwoStartsAtOnce(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	var wg sync.WaitGroup
	outs := make([]string, 4)
	for i := range outs {
		wg.Go(func() {
			out, err := r.run(bundle, "runtime", "up")
			if err != nil {
				out += err.Error()
			}
			outs[i] = out
		})
	}
	wg.Wait()
	for i, out := range outs {
		if !strings.HasSuffix(out, r.layout.Endpoint()+"\n") {
			t.Errorf("%d: %s", i, out)
		}
	}
	if n := len(r.processes()); n != 1 {
		t.Errorf("%d processes run: %v", n, r.processes())
	}
}

// TestProcessorsOfRunc checks that runc replaces the value of GOMAXPROCS that it inherits from containerd's shim
// (embedded/bundle/runc). The trace of a collection ends with the number of Ps. Some runs end before a collection does.
func TestProcessorsOfRunc(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("runtime", "up")
	runc := filepath.Join(r.layout.Unpacked(r.daemon().Digest), "bin", "runc")
	for value, want := range map[string]string{"4": "1", "3": "3"} {
		var traced []string
		for range 100 {
			cmd := exec.Command(runc, "--version")
			cmd.Env = []string{"GOMAXPROCS=" + value, "GOGC=1", "GODEBUG=gctrace=1"}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if traced = regexp.MustCompile(`(?m)^gc .* (\d+) P$`).FindStringSubmatch(string(out)); traced != nil {
				break
			}
		}
		if traced == nil || traced[1] != want {
			t.Errorf("GOMAXPROCS=%s: %q, want %s P", value, traced, want)
		}
	}
}

func TestABrokenCopyIsReplaced(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("runtime", "up")
	digest := r.daemon().Digest
	r.kill()
	runc := filepath.Join(r.layout.Unpacked(digest), "bin", "runc")
	if err := os.Truncate(runc, 100); err != nil {
		t.Fatal(err)
	}
	out, err := r.run(plain, "runtime", "up")
	if err == nil || !strings.Contains(out, "podrun-bundle") {
		t.Errorf("without an archive: %v\n%s", err, out)
	}
	r.must("apply", "pod.yaml")
	r.answers()
}

func TestUpgradeKeepsContainersRunning(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("runtime", "up")
	current := r.daemon().Digest
	// The files are the same, but have the digest of an older version, which a podrun binary
	// without an archive starts.
	older := strings.Repeat("0", 64)
	if err := r.asOlder(current, older); err != nil {
		t.Fatal(err)
	}
	if out, err := r.run(plain, "apply", "pod.yaml"); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, r.log())
	}
	if got := r.daemon().Digest; got != older {
		t.Fatalf("%s runs", got)
	}
	r.answers()
	pid := r.podPID()
	// get uses the running version.
	r.must("get")
	if got := r.daemon().Digest; got != older {
		t.Fatalf("get has started %s", got)
	}
	versions := filepath.Join(r.layout.Unpacked(older), "share", "versions.json")
	was, err := os.ReadFile(versions)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(versions, []byte(`{"containerd":"v99.0.0"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	r.fails(122, "is older than the running v99.0.0", "runtime", "upgrade")
	if err := os.WriteFile(versions, was, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := r.must("runtime", "upgrade"); !strings.Contains(out, "runtime upgraded") {
		t.Errorf("upgrade wrote\n%s", out)
	}
	if got := r.daemon().Digest; got != current {
		t.Errorf("%s runs", got)
	}
	r.answers()
	if got := r.podPID(); got != pid {
		t.Errorf("the container is process %s, was %s", got, pid)
	}
	if _, err := os.Stat(r.layout.Unpacked(older)); err != nil {
		t.Errorf("the version whose shim runs is gone: %v", err)
	}
	if out := r.must("runtime", "upgrade"); !strings.Contains(out, "runtime unchanged") {
		t.Errorf("the second upgrade wrote\n%s", out)
	}
	r.must("delete", "web")
	r.kill()
	r.must("runtime", "up")
	if _, err := os.Stat(r.layout.Unpacked(older)); err == nil {
		t.Error("runtime up did not remove a version that is no longer in use")
	}
}
