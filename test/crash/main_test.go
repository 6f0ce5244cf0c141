// Package crash kills podrun at each of its steps on a real container runtime, and checks
// that the first command after the kill succeeds and leaves nothing behind.
package crash

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/test/binary"
	"github.com/podrun/podrun/test/ring"
)

// program is podrun, built with fault points at which the tests can kill it.
var program string

func TestMain(m *testing.M) {
	ring.Package(2)
	binary.Main(m, &program, "-tags", "faultpoints,grpcnotrace")
}

// host is a root directory of podrun with one pod.
type host struct {
	dir, pod string // the directory of the root directory and files, and the pod's name
	port     int
	// killAfter is the time after which the test kills a command with SIGKILL; 0 means never.
	killAfter time.Duration
	// true if the pod has a Secret, which podrun keeps in memory
	memory bool
	legacy bool // true if the pod's state is in the files of schema version 2
	never  bool // true if the pod's containers are not restarted
	// service is true if the pod's file also has a Service
	service bool
	// rollback is true if the update of the pod is rolled back
	rollback bool
	// scaled is the number of pods to which a command scales the pod's Deployment; 0 if the pod has none
	scaled int
	// hasScaled is true after this command has succeeded
	hasScaled bool
	// was is the ID of the container that the command restarts with another image. It is empty if
	// the command does not restart a container, or before the test has requested the restart.
	was string
}

// updates reports whether a command restarts the pod's container with another image.
func updates(command string) bool { return strings.HasSuffix(command, "update") }

// anyPod stands for the name of the host's pod in the names of steps.
const anyPod = "POD"

func newHost(dir string, n int) *host {
	return &host{dir: filepath.Join(dir, fmt.Sprint("h", n)), pod: fmt.Sprint("crashed", n), port: 21000 + n%2000}
}

// Variants of a pod whose containers are not restarted. They differ in the container's image.
// An in-place update kills the container, which then exits with 0.
const (
	variantNever  = "never"
	variantSuffix = "-image"
	variantImage  = variantNever + variantSuffix
)

// manifest writes the pod's file. The pod has volumes of all kinds that podrun creates, a subPath, init containers, and a port to
// map. Its containers exit on request. If ends is true, they exit without a request. podrun creates
// the second init container and the second app container before their turn.
func (h *host) manifest(variant string, ends bool) (string, error) {
	command, image := "trap 'exit 0' TERM; sleep 600 & wait", os.Getenv("PODRUN_TEST_IMAGE")
	if ends {
		command = "sleep 0.2"
	}
	if variant == variantImage {
		image = os.Getenv("PODRUN_TEST_REGISTRY") + "/busybox:warm"
	}
	restarts := "Always"
	if ends || strings.HasPrefix(variant, variantNever) {
		restarts = "Never"
	}
	secret := ""
	if h.memory {
		secret = "    envFrom: [{secretRef: {name: key}}]\n---\n" +
			"apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: crash}\nstringData: {KEY: " + variant + "}\n"
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: crash}
spec:
  dnsPolicy: Default
  restartPolicy: %s
  terminationGracePeriodSeconds: 2
  hostAliases: [{ip: 192.0.2.1, hostnames: [alias]}]
  volumes:
  - {name: mem, emptyDir: {medium: Memory}}
  - {name: data, emptyDir: {}}
  - {name: config, configMap: {name: config, defaultMode: 0440}}
  initContainers: [{name: setup, image: %[3]s, command: ["true"]}, {name: more, image: %[3]s, command: ["true"]}]
  containers:
  - name: app
    image: %[8]s
    command: [sh, -c, "%[4]s"]
    env: [{name: VARIANT, value: "%[5]s"}]
    ports: [{containerPort: 80, hostPort: %[6]d}]
    volumeMounts: [{name: mem, mountPath: /mem}, {name: data, mountPath: /sub, subPath: sub}, {name: config, mountPath: /config}, {name: config, mountPath: /key, subPath: key}]
  - name: next
    image: %[3]s
    command: [sh, -c, "%[4]s"]
%[7]s---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: crash}
data: {key: "%[9]s"}
`, h.pod, restarts, os.Getenv("PODRUN_TEST_IMAGE"), command, strings.TrimSuffix(variant, variantSuffix), h.port, secret, image, configured)
	if h.service {
		text = h.withService(text)
	}
	path := filepath.Join(h.dir, variant+".yaml")
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// cgroupRoot returns the parent cgroup of the pods. It is inside the cgroup of the test's
// runtime.
func (h *host) cgroupRoot() string {
	return os.Getenv("PODRUN_CGROUP_ROOT") + "/" + h.pod
}

// result is the result of a podrun command.
type result struct {
	code   int // -1 if a signal terminated it
	killed bool
	out    string
	took   time.Duration
}

// podrun runs a command with additional environment variables.
func (h *host) podrun(env []string, args ...string) result { return h.during(env, nil, args...) }

// during runs a command and, concurrently, the given function, which may be nil. When the function
// returns, during sends SIGTERM to the command. When the command exits, the function's context
// ends.
func (h *host) during(env []string, meanwhile func(context.Context), args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), 2*recovery)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), "PODRUN_CONFIG=", "PODRUN_ROOT_DIR="+h.dir+"/root", "PODRUN_POD_LOGS_DIR="+h.dir+"/logs",
		"PODRUN_CONTAINER_LOGS_DIR="+h.dir+"/links", "PODRUN_NAMESPACE=crash", "PODRUN_CGROUP_ROOT="+h.cgroupRoot())
	if h.memory {
		c.Env = append(c.Env, "PODRUN_SECRETS=memory")
	}
	c.Env = append(c.Env, env...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	begun := time.Now()
	if err := c.Start(); err != nil {
		return result{code: -1, out: err.Error()}
	}
	if h.killAfter > 0 {
		// The signal has no effect if the command has already exited.
		defer time.AfterFunc(h.killAfter, func() { _ = c.Process.Kill() }).Stop()
	}
	beside, ended := context.WithCancel(ctx)
	var other sync.WaitGroup
	if meanwhile != nil {
		other.Go(func() {
			meanwhile(beside)
			// The signal has no effect if the command has already exited.
			_ = c.Process.Signal(syscall.SIGTERM)
		})
	}
	// The command's state contains the result.
	_ = c.Wait()
	took := time.Since(begun)
	ended()
	other.Wait()
	r := result{code: c.ProcessState.ExitCode(), out: out.String(), took: took}
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.killed = ws.Signal() == syscall.SIGKILL && ctx.Err() == nil
	}
	return r
}

// command returns the arguments of a command of the sweep, and the state that the pod must have
// before it.
func (h *host) command(name string) (args []string, before string, err error) {
	name, h.memory = strings.CutSuffix(name, inMemory)
	name, h.legacy = strings.CutSuffix(name, legacy)
	name, h.service = strings.CutSuffix(name, withService)
	if from, to, ok := scales(name); ok {
		h.scaled = to
		return h.scale(to), workload, h.deployment(from)
	}
	h.never = updates(name)
	forever, err := h.manifest("one", false)
	if err != nil {
		return nil, "", err
	}
	switch name {
	case "apply":
		return []string{"apply", forever}, "", nil
	case "run":
		file, err := h.manifest("ends", true)
		return []string{"run", file}, "", err
	case "replace":
		file, err := h.manifest("two", false)
		return []string{"apply", file}, "running", err
	case "update":
		file, err := h.manifest(variantImage, false)
		return []string{"apply", file}, variantNever, err
	case "delete":
		return h.deletion(), "running", nil
	case "start":
		return []string{"start", h.pod}, "stopped", nil
	case "serve", "serve-update", rollback:
		if h.rollback = name == rollback; h.rollback {
			if forever, err = h.rollbackManifests(); err != nil {
				return nil, "", err
			}
		}
		if updates(name) {
			if forever, err = h.manifest(variantNever, false); err == nil {
				_, err = h.manifest(variantImage, false)
			}
			if err != nil {
				return nil, "", err
			}
		}
		text, err := os.ReadFile(forever)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(h.source()), 0o755)
		}
		if err == nil {
			err = os.WriteFile(h.source(), text, 0o600)
		}
		return []string{"serve", filepath.Dir(h.source())}, "", err
	case "restart", "stop":
		return []string{name, h.pod}, "running", nil
	}
	return nil, "", fmt.Errorf("unknown command %s", name)
}

// applied returns the manifest that the test applies after it has killed a command.
func (h *host) applied() string {
	if h.was != "" {
		return filepath.Join(h.dir, variantImage+".yaml")
	}
	return filepath.Join(h.dir, "one.yaml")
}

// prepare brings the pod into the state that a command requires.
func (h *host) prepare(before string) error {
	if before == "" {
		return nil
	}
	file := filepath.Join(h.dir, "one.yaml")
	if before == workload {
		file = filepath.Join(h.dir, workload+".yaml")
	}
	if before == variantNever {
		var err error
		if file, err = h.manifest(variantNever, false); err != nil {
			return err
		}
	}
	if r := h.podrun(nil, "apply", file); r.code != 0 {
		return fmt.Errorf("prepare: apply: code %d: %s", r.code, r.out)
	}
	if before == "stopped" {
		if r := h.podrun(nil, "stop", h.pod); r.code != 0 {
			return fmt.Errorf("prepare: stop: code %d: %s", r.code, r.out)
		}
	}
	if h.legacy {
		return h.legacyState()
	}
	return nil
}

// legacyState rewrites the state of the pod as the files of schema version 2. The state contains
// results of probes, and a completed resize.
func (h *host) legacyState() error {
	plugins, err := filepath.Glob(filepath.Join(h.dir, "root", "pods", "*", "plugins"))
	if err != nil || len(plugins) != 1 {
		return fmt.Errorf("prepare: %d pods, %w", len(plugins), err)
	}
	status := filepath.Join(plugins[0], "podrun.dev~status", "status.json")
	data, err := os.ReadFile(status)
	if err != nil {
		return err
	}
	content, version := identity.CutSchema(data)
	if version != identity.StateSchema {
		return fmt.Errorf("prepare: the state has version %d", version)
	}
	for file, text := range map[string]string{
		status: string(content),
		filepath.Join(plugins[0], "podrun.dev~probes", "results.json"): `{"0123456789abc":{"started":true,"ready":true}}`,
		filepath.Join(plugins[0], "podrun.dev~resize", "resize.json"):  `{"group":true,"since":"2026-01-02T03:04:05Z"}`,
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(file, identity.AddSchema(identity.PlainSchema, []byte(text)), 0o640); err != nil {
			return err
		}
	}
	return nil
}

// last returns the last n lines of a text.
func last(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
