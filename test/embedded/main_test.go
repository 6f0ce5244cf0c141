// Package embedded runs podrun with its embedded container runtime on this machine.
// PODRUN_TEST_BUNDLE names a podrun-bundle that `make bundle` has built. Each test has its own
// root directory and therefore its own runtime, and leaves nothing behind.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	embed "github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/binary"
	"github.com/podrun/podrun/test/busybox"
	"github.com/podrun/podrun/test/hostport"
	"github.com/podrun/podrun/test/inherited"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// bundle is a podrun binary that contains a runtime; plain is one without a runtime, and with fault points.
var bundle, plain, image string

func TestMain(m *testing.M) {
	inherited.Reset()
	if bundle = os.Getenv("PODRUN_TEST_BUNDLE"); bundle == "" || os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	dir, err := os.MkdirTemp("", "podrun-embedded-")
	if err == nil {
		bundle, err = filepath.Abs(bundle)
	}
	if err == nil {
		plain, image = filepath.Join(dir, "podrun"), filepath.Join(dir, "image.tar")
		err = errors.Join(binary.Build(plain, "-tags", "faultpoints,grpcnotrace"), busybox.Write(image, imageName))
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// imageName is the name of the pods' image, which no registry serves.
const imageName = "localhost/busybox:1"

// rig is a root directory.
type rig struct {
	*testing.T
	dir            string
	layout         embed.Layout
	port, nodePort int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return newRigAt(t, "")
}

// newRigAt returns a rig with the given root directory. If root is "", the root directory is in the
// rig's directory.
func newRigAt(t *testing.T, root string) *rig {
	t.Helper()
	if bundle == "" {
		t.Skip("no embedded runtime: PODRUN_TEST_BUNDLE is not set; 'make bundle' builds one")
	}
	ring.RequireRoot(t)
	r := &rig{T: t, dir: t.TempDir()}
	if root == "" {
		root = filepath.Join(r.dir, "root")
	}
	r.layout = embed.Layout{RootDir: root}
	var err error
	if r.port, err = hostport.Reserve(); err != nil {
		t.Fatal(err)
	}
	if r.nodePort, err = hostport.ReserveNodePort(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(r.layout.Images(), 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.layout.Images(), "busybox.tar"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	r.write("pod.yaml", fmt.Sprintf(podText, imageName, r.port))
	t.Cleanup(r.leavesNothing)
	return r
}

const podText = `apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: web
    image: %s
    command: [httpd, -f, -p, "8080", -h, /www]
    ports: [{containerPort: 8080, hostPort: %d}]
`

func (r *rig) write(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// command returns a podrun command whose environment contains only the rig's settings, and no
// PATH or HOME.
func (r *rig) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(program, args...)
	c.Dir = r.dir
	c.Env = []string{"PODRUN_CONFIG=", "PODRUN_RUNTIME=embedded", "PODRUN_ROOT_DIR=" + r.layout.RootDir, "PODRUN_POD_LOGS_DIR=" + r.dir + "/logs",
		"PODRUN_CONTAINER_LOGS_DIR=" + r.dir + "/links", "PODRUN_CGROUP_ROOT=" + r.cgroup(), "PODRUN_EVICTION_HARD=", "PODRUN_HOSTNAME_OVERRIDE=node"}
	return c
}

func (r *rig) cgroup() string { return "/podrunembedded" + r.layout.ID() }

// run runs a command until it ends or hangs, and returns its complete output.
func (r *rig) run(program string, args ...string) (string, error) {
	c := r.command(program, args...)
	ctx, cancel := patience.Context(context.Background(), patience.OnRuntime)
	defer cancel()
	bounded := patience.Command(ctx, c.Path, args...)
	bounded.Dir, bounded.Env = c.Dir, c.Env
	out, err := bounded.CombinedOutput()
	return string(out), err
}

// must runs podrun-bundle, and fails the test if podrun-bundle fails.
func (r *rig) must(args ...string) string {
	r.Helper()
	out, err := r.run(bundle, args...)
	if err != nil {
		r.Fatalf("podrun %s: %v\n%s\n%s", strings.Join(args, " "), err, out, r.log())
	}
	return out
}

// fails runs podrun-bundle, and fails the test unless it exits with the given code and message.
func (r *rig) fails(code int, want string, args ...string) {
	r.Helper()
	out, err := r.run(bundle, args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != code || !strings.Contains(out, want) {
		r.Fatalf("podrun %s: %v, want code %d and %q\n%s", strings.Join(args, " "), err, code, want, out)
	}
}

func (r *rig) log() string {
	data, err := os.ReadFile(r.layout.Log())
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4000):])
}

func (r *rig) daemon() *embed.Daemon {
	r.Helper()
	d := embed.ReadDaemon(context.Background(), r.layout)
	if !d.Alive() {
		r.Fatalf("no daemon runs: %+v", d)
	}
	return d
}

// answers checks that the pod responds to a request to its host port.
func (r *rig) answers() {
	r.Helper()
	patience.Wait(r, patience.OnRuntime, "the pod does not answer", func() bool {
		answer, err := get("127.0.0.1:" + strconv.Itoa(r.port))
		return err == nil && answer == "hello"
	})
}

// leavesNothing removes the runtime, and checks for leftovers.
func (r *rig) leavesNothing() {
	if r.Failed() {
		r.Log(r.log())
	}
	if out, err := r.run(bundle, "runtime", "down", "--force"); err != nil {
		r.Errorf("down: %v\n%s", err, out)
	}
	for _, path := range []string{r.layout.Dir(), r.layout.State(), "/sys/class/net/" + r.layout.Bridge()} {
		if _, err := os.Lstat(path); err == nil {
			r.Errorf("%s is left", path)
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/" + r.layout.Cgroup(), "/sys/fs/cgroup/" + r.layout.Cgroup(), "/sys/fs/cgroup/*" + r.cgroup() + "/*/*", "/var/lib/cni/results/" + r.layout.Bridge() + "*"} {
		if found, err := filepath.Glob(pattern); err != nil || len(groupsOf(found)) > 0 {
			r.Errorf("left: %v, %v", groupsOf(found), err)
		}
	}
	for _, root := range []string{"/sys/fs/cgroup/*" + r.cgroup(), "/sys/fs/cgroup" + r.cgroup()} {
		found, _ := filepath.Glob(root)
		for _, dir := range found {
			// the test created this directory
			_ = syscall.Rmdir(dir)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), r.dir) || strings.Contains(string(mounts), r.layout.State()) {
		r.Errorf("something is mounted still (%v)", err)
	}
	if left := r.processes(); len(left) > 0 {
		r.Errorf("processes are left: %v", left)
	}
	if out, err := exec.Command("nft", "list", "tables").Output(); err == nil && strings.Contains(string(out), r.layout.Bridge()) {
		r.Errorf("tables of nftables are left:\n%s", out)
	}
}

// groupsOf omits the files of cgroups.
func groupsOf(paths []string) []string {
	var out []string
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && (info.IsDir() || !strings.HasPrefix(p, "/sys/fs/cgroup")) {
			out = append(out, p)
		}
	}
	return out
}

// processes returns the processes that run a program below the rig's directory.
func (r *rig) processes() []string {
	exes, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		r.Fatal(err)
	}
	var out []string
	for _, path := range exes {
		if exe, err := os.Readlink(path); err == nil && strings.HasPrefix(exe, r.dir) {
			out = append(out, path+" "+exe)
		}
	}
	return out
}
