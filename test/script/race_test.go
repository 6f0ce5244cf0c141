package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// racers is the number of concurrent podrun processes.
const racers = 16

// TestProcessesRaceForReservations starts sixteen processes that apply one pod each. As many
// must succeed as fit on the host, and the others must be refused with the reason: admission
// and reservation are atomic across processes.
func TestProcessesRaceForReservations(t *testing.T) {
	ring.Require(t, 2)
	ring.RequireRoot(t)
	for _, tc := range []struct {
		name, container string
		flags           []string
		room            int
		reason          string
	}{
		// Each pod requests 600m for each CPU of the host, so a second pod does not fit.
		{"the last CPU", fmt.Sprintf(`resources: {requests: {cpu: %dm}}`, 600*onlineCPUs(t)), nil, 1, "Node didn't have enough resource: cpu"},
		{"a port", `ports: [{containerPort: 80, hostPort: 31997}]`, nil, 1, "port 31997/TCP of the host is taken by pod default/racer-"},
		{"the number of pods", `resources: {}`, []string{"--max-pods=5"}, 5, "Node didn't have enough resource: pods"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRace(t)
			outputs, codes := make([]string, racers), make([]int, racers)
			var wg sync.WaitGroup
			for i := range racers {
				wg.Go(func() { outputs[i], codes[i] = r.apply(i, tc.container, tc.flags) })
			}
			wg.Wait()
			admitted := 0
			for i, code := range codes {
				switch {
				case code == 0:
					admitted++
				case code != 122 || !strings.Contains(outputs[i], tc.reason):
					t.Errorf("process %d exited with %d:\n%s", i, code, outputs[i])
				}
			}
			if admitted != tc.room {
				t.Errorf("%d pods were admitted, want %d", admitted, tc.room)
			}
			if n := len(r.runtime.Sandboxes()); n != tc.room {
				t.Errorf("%d sandboxes", n)
			}
		})
	}
}

// TestProcessesRaceForReservationsAgain covers the same race for existing pods, which are restarted
// or replaced with larger ones. podrun must admit them one after the other.
func TestProcessesRaceForReservationsAgain(t *testing.T) {
	ring.Require(t, 2)
	ring.RequireRoot(t)
	large := fmt.Sprintf(`resources: {requests: {cpu: %dm}}`, 600*onlineCPUs(t))
	for name, tc := range map[string]struct{ first, then string }{
		"stopped pods start": {large, ""},
		"pods grow":          {"resources: {}", large},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRace(t)
			for i := range racers {
				if out, code := r.apply(i, tc.first, nil); code != 0 {
					t.Fatalf("apply exited with %d:\n%s", code, out)
				}
				if tc.then != "" {
					continue
				}
				if out, code := r.run("", "stop", fmt.Sprintf("racer-%d", i)); code != 0 {
					t.Fatalf("stop exited with %d:\n%s", code, out)
				}
			}
			outputs, codes := make([]string, racers), make([]int, racers)
			var wg sync.WaitGroup
			for i := range racers {
				wg.Go(func() {
					if tc.then != "" {
						outputs[i], codes[i] = r.apply(i, tc.then, nil)
					} else {
						outputs[i], codes[i] = r.run("", "start", "--allow-kubelet", fmt.Sprintf("racer-%d", i))
					}
				})
			}
			wg.Wait()
			admitted := 0
			for i, code := range codes {
				switch {
				case code == 0:
					admitted++
				case code != 122 || !strings.Contains(outputs[i], "Node didn't have enough resource: cpu"):
					t.Errorf("process %d exited with %d:\n%s", i, code, outputs[i])
				}
			}
			if admitted != 1 {
				t.Errorf("%d pods were admitted, want 1", admitted)
			}
		})
	}
}

// TestProcessesInOppositeOrder checks that two commands that name the same pods in opposite orders
// do not deadlock.
func TestProcessesInOppositeOrder(t *testing.T) {
	ring.Require(t, 2)
	ring.RequireRoot(t)
	r := newRace(t)
	manifest := func(names ...string) (out string) {
		for _, name := range names {
			out += fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {dnsPolicy: Default, terminationGracePeriodSeconds: 0,\n"+
				"  containers: [{name: app, image: \"registry.example/app:1\"}]}}\n", name)
		}
		return out
	}
	var wg sync.WaitGroup
	for i := range racers {
		text := manifest("a", "b")
		if i%2 == 1 {
			text = manifest("b", "a")
		}
		wg.Go(func() {
			// Because of --force, each process has real work to do while it holds the locks.
			if out, code := r.run(text, "apply", "--force", "--allow-kubelet", "-"); code != 0 {
				t.Errorf("process %d exited with %d:\n%s", i, code, out)
			}
		})
	}
	wg.Wait()
	if n := len(r.runtime.Sandboxes()); n != 2 {
		t.Errorf("%d sandboxes", n)
	}
}

// race is a host with a fake runtime on a socket, for real processes.
type race struct {
	t       *testing.T
	runtime *critest.Runtime
	program string
	env     []string
}

func newRace(t *testing.T) *race {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &race{t: t, runtime: critest.New(), program: filepath.Join(dir, "podrun")}
	// TestMain makes the test binary act as podrun under this name.
	if err := os.Symlink(self, r.program); err != nil {
		t.Fatal(err)
	}
	r.runtime.AddImage(critest.Image{Name: "registry.example/app:1", Entrypoint: []string{"/server"}})
	stop, err := r.runtime.Serve(filepath.Join(dir, "cri.sock"))
	if err != nil {
		t.Fatal(err)
	}
	// The environment is empty, because it could select the real runtime of the tests.
	r.env = append(r.env, "PATH="+os.Getenv("PATH"), "CONTAINER_RUNTIME_ENDPOINT=unix://"+filepath.Join(dir, "cri.sock"),
		fmt.Sprintf("PODRUN_CGROUP_ROOT=/podrunrace%d", os.Getpid()),
		"PODRUN_ROOT_DIR="+filepath.Join(dir, "root"), "PODRUN_POD_LOGS_DIR="+filepath.Join(dir, "logs"),
		"PODRUN_CONTAINER_LOGS_DIR="+filepath.Join(dir, "links"), "PODRUN_EVICTION_HARD=memory.available<1Mi")
	t.Cleanup(func() {
		if out, code := r.run("", "delete", "--all"); code != 0 {
			t.Errorf("delete exited with %d:\n%s", code, out)
		}
		stop()
		r.runtime.Close()
	})
	return r
}

func (r *race) apply(i int, container string, flags []string) (output string, code int) {
	pod := fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: racer-%d}, spec: {dnsPolicy: Default, terminationGracePeriodSeconds: 0,
  containers: [{name: app, image: "registry.example/app:1", %s}]}}`, i, container)
	return r.run(pod, append([]string{"apply", "--allow-kubelet", "-"}, flags...)...)
}

// run runs podrun as a separate process.
func (r *race) run(stdin string, args ...string) (output string, code int) {
	// A cleanup function calls run, when the context of the test has ended.
	ctx, cancel := patience.Context(context.WithoutCancel(r.t.Context()), patience.OnFake)
	defer cancel()
	c := patience.Command(ctx, r.program, args...)
	c.Env, c.Stdin = r.env, strings.NewReader(stdin)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out.String(), exit.ExitCode()
	}
	if err != nil {
		r.t.Error(err)
	}
	return out.String(), 0
}

// onlineCPUs returns the number of CPUs that podrun detects.
func onlineCPUs(t *testing.T) int {
	t.Helper()
	dirs, err := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	if err != nil || len(dirs) == 0 {
		return runtime.NumCPU()
	}
	return len(dirs)
}
