// Package fault injects each kind of failure into each call that a podrun command makes to the
// runtime. It checks how the command exits, and whether the next command recovers. It uses the fake
// runtime over its socket, and runs podrun as a process.
package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/inherited"
	"github.com/podrun/podrun/test/ring"
)

// childEnv is an environment variable that makes a process of the test binary run podrun.
const childEnv = "PODRUN_FAULT_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if calls := os.Getenv(refuseEnv); calls != "" {
			if err := refuse(calls); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(cmd.Main(context.Background(), os.Args[1:], cmd.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, "test", time.Now()))
	}
	ring.Package(2)
	inherited.Reset()
	// The variables of the real runtime of the tests are dropped.
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PODRUN_") && name != "PODRUN_TEST_RING" && !strings.HasPrefix(name, "PODRUN_FAULT_") || name == "CONTAINER_RUNTIME_ENDPOINT" {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// profile is a kind of container runtime that the fake simulates.
type profile struct {
	name    string
	options []critest.Option
}

var profiles = []profile{
	{"containerd 1.6", nil},
	{"CRI-O", []critest.Option{critest.As(critest.CRIO())}},
}

// host is a host with one pod: a root directory of podrun, and a runtime.
type host struct {
	dir string
	rt  *critest.Runtime
	// onBadHook is called when the hook of bad.yaml runs.
	onBadHook func()
}

// forPod is a pod that requires all kinds of calls to the runtime. It has init containers, hooks,
// an image that is present and an image that is not. podrun creates the container called more
// before its turn.
const forPod = `apiVersion: v1
kind: Pod
metadata: {name: web, namespace: fault, annotations: {kubectl.kubernetes.io/default-container: app}}
spec:
  dnsPolicy: Default
  restartPolicy: %s
  terminationGracePeriodSeconds: 1
  initContainers: [{name: setup, image: "registry.example/setup:1"}, {name: more, image: "registry.example/setup:1"}]
  containers: [%s{name: %s, image: "registry.example/%s", lifecycle: {postStart: {exec: {command: [x]}}, preStop: {exec: {command: [x]}}}}]
`

// earlyContainer is another container of the pods that do not terminate. While it starts,
// podrun may create the container app.
const earlyContainer = `{name: early, image: "registry.example/setup:1"}, `

// manifests are the pod, another definition of it, one whose hook fails, and a pod that terminates.
var manifests = map[string]string{
	"one.yaml":    fmt.Sprintf(forPod, "Always", earlyContainer, "app", "far:1"),
	"two.yaml":    fmt.Sprintf(strings.Replace(forPod, "dnsPolicy: Default", "dnsPolicy: Default\n  hostname: other", 1), "Always", earlyContainer, "app", "far:2"),
	"bad.yaml":    fmt.Sprintf(strings.Replace(forPod, "postStart: {exec: {command: [x]}}", "postStart: {exec: {command: [bad]}}", 1), "Always", earlyContainer, "app", "far:2"),
	"job.yaml":    strings.Replace(fmt.Sprintf(forPod, "Never", "", "job", "far:1"), "default-container: app", "default-container: job", 1),
	"config.yaml": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupsPerQOS: false\nenforceNodeAllocatable: []\nevictionHard: {}\nimageGCHighThresholdPercent: 100\n",
}

// newHost returns a host, and a function that removes it.
func newHost(p profile) (*host, func(), error) {
	// The directory is in memory, because podrun syncs the files that it writes.
	base := "/dev/shm"
	if _, err := os.Stat(base); err != nil {
		base = ""
	}
	dir, err := os.MkdirTemp(base, "podrun-fault-")
	if err != nil {
		return nil, nil, err
	}
	h := &host{dir: dir, rt: critest.New(p.options...)}
	h.rt.AddImage(critest.Image{Name: "registry.example/setup:1"})
	for _, tag := range []string{"1", "2"} {
		h.rt.AddRemote(critest.Image{Name: "registry.example/far:" + tag})
	}
	h.rt.Script("setup", critest.Behavior{After: 20 * time.Millisecond})
	h.rt.Script("more", critest.Behavior{})
	h.rt.Script("early", critest.Behavior{Forever: true, CleanTERM: true})
	h.rt.Script("app", critest.Behavior{Lines: []critest.Line{{Text: "hello"}}, Forever: true, CleanTERM: true})
	h.rt.Script("job", critest.Behavior{Lines: []critest.Line{{Text: "hello"}}, After: 200 * time.Millisecond})
	for _, name := range []string{"app", "job"} {
		h.rt.ScriptExec(name, h.exec)
	}
	stop, err := h.rt.Serve(filepath.Join(dir, "cri.sock"))
	for name, text := range manifests {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	end := func() {
		if stop != nil {
			stop()
		}
		h.rt.Close()
		os.RemoveAll(dir)
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return h, end, nil
}

// exec returns the result of a command in a container. It is called with the lock of the runtime held.
func (h *host) exec(cmd []string) *critest.Exec {
	if slices.Equal(cmd, []string{"bad"}) {
		go h.onBadHook()
		return &critest.Exec{ExitCode: 3, After: 100 * time.Millisecond}
	}
	return &critest.Exec{Stdout: "hello\n"}
}

// result is the result of a podrun command.
type result struct {
	code     int // -1 if the test killed it
	out, err string
	took     time.Duration
}

// killAfter is the time after which the test kills a command that does not exit.
const killAfter = 6 * time.Minute

// process returns a podrun process with a command.
func (h *host) process(ctx context.Context, env []string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.WaitDelay = 30 * time.Second
	c.Env = append(os.Environ(), childEnv+"=1", "CONTAINER_RUNTIME_ENDPOINT=unix://"+h.dir+"/cri.sock", "PODRUN_NAMESPACE=fault", "PODRUN_HOSTNAME_OVERRIDE=node",
		"PODRUN_CONFIG="+h.dir+"/config.yaml", "PODRUN_ROOT_DIR="+h.dir+"/root", "PODRUN_POD_LOGS_DIR="+h.dir+"/logs", "PODRUN_CONTAINER_LOGS_DIR="+h.dir+"/links")
	c.Env = append(c.Env, env...)
	return c
}

// podrun runs a command. Names of manifests in its arguments refer to those of the host.
func (h *host) podrun(ctx context.Context, env []string, args ...string) result {
	ctx, cancel := context.WithTimeout(ctx, killAfter)
	defer cancel()
	return output(h.process(ctx, env, h.paths(args)...))
}

// paths replaces the names of manifests with the host's paths.
func (h *host) paths(args []string) []string {
	args = slices.Clone(args)
	for i, a := range args {
		if _, ok := manifests[a]; ok {
			args[i] = filepath.Join(h.dir, a)
		}
	}
	return args
}

// output runs a process until it exits.
func output(c *exec.Cmd) result {
	var out, stderr strings.Builder
	c.Stdout, c.Stderr = &out, &stderr
	begun := time.Now()
	err := c.Run()
	r := result{out: out.String(), err: stderr.String(), took: time.Since(begun), code: c.ProcessState.ExitCode()}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		r.err += err.Error()
	}
	return r
}

// runs checks that the pod runs in exactly one sandbox.
func (h *host) runs() error {
	ready := ""
	for _, s := range h.rt.Sandboxes() {
		if s.Ready && ready != "" {
			return errors.New("two sandboxes are ready")
		}
		if s.Ready {
			ready = s.ID
		}
	}
	var names []string
	for _, c := range h.running() {
		if c.SandboxID == ready {
			names = append(names, c.Name)
		}
	}
	if slices.Sort(names); ready == "" || !slices.Equal(names, []string{"app", "early"}) || len(h.running()) != 2 {
		return fmt.Errorf("containers %q run in sandbox %.8q: %q", names, ready, h.rt.Leaked())
	}
	return nil
}

// runsImage checks that the pod runs in exactly one sandbox, and that its container app has an image.
func (h *host) runsImage(name string) error {
	if err := h.runs(); err != nil {
		return err
	}
	for _, c := range h.running() {
		if image := c.Config.GetImage().GetUserSpecifiedImage(); c.Name == "app" && image != "registry.example/"+name {
			return fmt.Errorf("the image %s runs, want %s", image, name)
		}
	}
	return nil
}

// runsContainer reports whether a container with the given name is running.
func (h *host) runsContainer(name string) bool {
	return slices.ContainsFunc(h.running(), func(c critest.Container) bool { return c.Name == name })
}

func (h *host) running() []critest.Container {
	return slices.DeleteFunc(h.rt.Containers(), func(c critest.Container) bool { return c.State != runtimeapi.ContainerState_CONTAINER_RUNNING })
}

// stopped checks that no container of the pod is running.
func (h *host) stopped() error {
	if n := len(h.running()); n > 0 {
		return fmt.Errorf("%d containers run", n)
	}
	return nil
}

// gone checks that neither the runtime nor the disk has leftovers of the pod. It permits the
// image back-off of a pod that was rolled back, because podrun keeps it intentionally.
func (h *host) gone() error {
	left := h.rt.Leaked()
	for _, dir := range []string{"root/pods", "root/owners", "root/claims", "root/reservations", "root/history", "root/updates", "logs", "links"} {
		// The list is empty if the directory was never created.
		entries, _ := os.ReadDir(filepath.Join(h.dir, dir))
		for _, e := range entries {
			left = append(left, dir+"/"+e.Name())
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("left: %s", strings.Join(left, ", "))
	}
	return nil
}
