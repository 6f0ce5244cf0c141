package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
)

// childEnv contains a childJob for a child process of these tests.
const childEnv = "PODRUN_TEST_CHILD"

// childJob is the job of a child process, which acts as a separate podrun process.
type childJob struct {
	Endpoint string
	Settings nodeconfig.Settings
	// the manifest to apply; if it is empty, the job stops or deletes all pods
	Manifest string
	Stop     bool
}

// TestHelperPodrun is the child process. It does nothing if there is no job.
func TestHelperPodrun(t *testing.T) {
	text := os.Getenv(childEnv)
	if text == "" {
		return
	}
	var job childJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	client, err := cri.Dial(job.Endpoint, "", 2*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	e := &node.Node{Client: client, Settings: job.Settings, Invocation: run.NewInvocation(), Command: "podrun child"}
	if err := job.do(t, e); err != nil {
		t.Fatal(err)
	}
}

func (j childJob) do(t *testing.T, e *run.Node) error {
	if j.Manifest != "" {
		results, err := run.ApplyPods(t.Context(), e, load(t, j.Manifest), run.ApplyOptions{Timeout: testTimeout, AllowKubelet: true})
		if err != nil {
			return err
		}
		return results[0].Err
	}
	known, err := lookup.Find(t.Context(), e, lookup.Selector{})
	if err != nil {
		return err
	}
	if j.Stop {
		return run.StopPods(t.Context(), e, known, run.DeleteOptions{})[0].Err
	}
	results, err := run.DeletePods(t.Context(), e, known, run.DeleteOptions{})
	if err != nil {
		return err
	}
	return results[0].Err
}

// killAt runs a child process with a runtime on a socket. It kills the child with SIGKILL at the
// given step, before or after the effect of the call.
func (r *rig) killAt(at step, after bool, text string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	socket := filepath.Join(r.t.TempDir(), "cri.sock")
	stop, err := r.rt.Serve(socket)
	if err != nil {
		r.t.Fatal(err)
	}
	defer stop()
	job, err := json.Marshal(childJob{Endpoint: "unix://" + socket, Settings: r.settings, Manifest: text})
	if err != nil {
		r.t.Fatal(err)
	}
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestHelperPodrun$")
	child.Env = append(os.Environ(), childEnv+"="+string(job))
	started := make(chan struct{})
	// The child can be killed only when its PID is known, because process ID 0 means the whole
	// process group.
	kill := func() {
		<-started
		// the test checks the exit state of the process
		_ = child.Process.Kill()
	}
	fault := critest.Fault{When: critest.Before, Skip: at.n, Times: 1}
	if after {
		fault.When, fault.Done = critest.EffectThenHang, kill
	}
	// Match is called for every call of the method, including those that Skip counts.
	calls := 0
	fault.Match = func(proto.Message) bool {
		if calls++; calls == at.n+1 && !after {
			kill()
		}
		return true
	}
	clear := r.rt.Fault(at.method, fault)
	defer clear()
	if err := child.Start(); err != nil {
		r.t.Fatal(err)
	}
	close(started)
	err = child.Wait()
	if ws, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ctx.Err() != nil {
		r.t.Fatalf("the child was not killed at %s %d: %v", at.method, at.n, err)
	}
}

// crashRig returns a host for faultPod. The counter is the number of times that the pod's hook was
// run.
func crashRig(t *testing.T) (*rig, *atomic.Int64) {
	r := faultRig(t, step{})
	var hooks atomic.Int64
	r.rt.ScriptExec("app", func([]string) *critest.Exec { hooks.Add(1); return &critest.Exec{} })
	return r, &hooks
}

// TestApplyKilled kills podrun at every call of an apply that changes something, before and after
// its effect. The next apply must converge, including the hook, and delete must then leave nothing
// behind. A delete instead of that apply must also leave nothing behind.
func TestApplyKilled(t *testing.T) {
	t.Parallel()
	steps := stepsOf(t, func(r *rig) { r.mustApply(faultPod, run.OutcomeCreated) })
	steps = slices.DeleteFunc(steps, func(s step) bool { return s.reads() && (s.method != "ContainerStatus" || s.n > 0) })
	if len(steps) < 11 {
		t.Fatalf("only %v", steps)
	}
	for _, at := range steps {
		for _, variant := range []struct{ after, again bool }{{false, true}, {true, true}, {true, false}} {
			after, again := variant.after, variant.again
			t.Run(fmt.Sprintf("%s/%d/after=%v,again=%v", at.method, at.n, after, again), func(t *testing.T) {
				t.Parallel()
				r, hooks := crashRig(t)
				r.killAt(at, after, faultPod)
				r.noLockHeld()
				if again {
					if result := r.apply(faultPod); result.Err != nil {
						t.Fatalf("the next apply: %v", result.Err)
					}
					r.oneReadySandbox()
					r.mountsAreSetUp()
					if hooks.Load() == 0 {
						t.Error("the hook was not run")
					}
					r.mustApply(faultPod, run.OutcomeUnchanged)
				}
				r.mustDelete()
			})
		}
	}
}

// TestDeleteKilled kills podrun at every call of a delete that changes something. The next
// delete must remove the remaining objects.
func TestDeleteKilled(t *testing.T) {
	t.Parallel()
	steps := stepsOf(t, func(r *rig) {
		r.mustApply(faultPod, run.OutcomeCreated)
		r.rt.ForgetCalls()
		r.mustDelete()
	})
	for _, at := range steps {
		if at.reads() {
			continue
		}
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%d/after=%v", at.method, at.n, after), func(t *testing.T) {
				t.Parallel()
				r, _ := crashRig(t)
				r.mustApply(faultPod, run.OutcomeCreated)
				r.rt.ForgetCalls()
				r.killAt(at, after, "")
				r.noLockHeld()
				r.mustDelete()
			})
		}
	}
}

// TestReservationOfKilled checks that the next podrun process counts a reservation that a killed
// process left behind. If the next process fails before it has started a container, it must remove
// the reservation.
func TestReservationOfKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	text := podText("web", "Always", "containers: [{name: app, image: registry.example/absent:1}]")
	r.killAt(step{method: "RunPodSandbox"}, false, text)
	if known, err := lookup.Find(t.Context(), r.engine(), lookup.Selector{}); err != nil || len(known) != 1 {
		t.Fatalf("%v, %v", known, err)
	}
	wantErr(t, r.apply(text).Err, problem.Image, "registry.example/absent:1")
	r.nothingLeft()
}

// TestSweep covers a podrun process that is killed before it has written the checkpoint. It leaves
// a directory behind that no other command would find.
func TestSweep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	kept := r.mustApply(one("Always"), run.OutcomeCreated)
	made := func(uid string, files ...string) string {
		dir := r.layout().Pod(uid)
		for _, d := range []string{"volumes", "plugins", "containers"} {
			if err := os.MkdirAll(filepath.Join(dir, d), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	half := []string{made("u-empty"), made("u-half", ".pod.yaml.123")}
	full := []string{made("u-data", "volumes/precious"), made("u-other", "events.jsonl"), r.layout().Pod(kept.ID.UID)}
	check := func() {
		t.Helper()
		for _, dir := range half {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("%s: %v", dir, err)
			}
		}
		for _, dir := range full {
			if _, err := os.Stat(dir); err != nil {
				t.Error(err)
			}
		}
	}
	r.mustApply(one("Always"), run.OutcomeUnchanged)
	check()
	made("u-empty")
	r.delete(run.DeleteOptions{Found: true}, "none")
	if _, err := os.Stat(half[0]); err != nil {
		t.Errorf("a command on found pods read the others: %v", err)
	}
	r.delete(run.DeleteOptions{}, "none")
	check()
	r.delete(run.DeleteOptions{})
}
