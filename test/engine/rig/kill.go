package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/test/patience"
)

// KillLate runs a job in a separate process, and kills the process while the runtime executes a
// call of the given method. When the delay has passed since the kill, the call takes effect, and late is closed.
func (h *Host) KillLate(method string, delay time.Duration, do Job) (late <-chan struct{}) {
	h.T.Helper()
	socket := filepath.Join(h.T.TempDir(), "cri.sock")
	stop, err := h.Runtime.Serve(socket)
	if err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(stop)
	child := do.command(h.T.Context(), h.T, socket, h.Settings)
	done, gate := make(chan struct{}), make(chan struct{})
	h.T.Cleanup(h.Runtime.Fault(method, critest.Fault{When: critest.Late, Delay: delay, Times: 1, Gate: gate, Done: func() { close(done) }}))
	if err := child.Start(); err != nil {
		h.T.Fatal(err)
	}
	patience.Wait(h.T, patience.OnRuntime, "the child calls "+method, func() bool { return h.CallsTo(method) > 0 })
	// the test checks the exit state of the process
	_ = child.Process.Kill()
	if err := child.Wait(); err == nil || h.CallsTo(method) == 0 {
		h.T.Fatalf("the child was not killed in %s", method)
	}
	close(gate)
	return done
}

// jobVariable contains a Job for a child process of these tests.
const jobVariable = "PODRUN_TEST_CHILD"

// Job is the job of a child process, which acts as a separate podrun process.
type Job struct {
	Endpoint string
	Settings nodeconfig.Settings
	// the manifest to apply; if it is empty, the job stops or deletes all pods
	Manifest string
	Stop     bool
}

// runChild runs the job of a child process, and returns the exit code of the process.
func runChild(text string) int {
	var job Job
	err := json.Unmarshal([]byte(text), &job)
	if err == nil {
		err = job.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "podrun child:", err)
		return 1
	}
	return 0
}

func (j Job) run(ctx context.Context) error {
	client, err := cri.Dial(j.Endpoint, "", 2*time.Minute)
	if err != nil {
		return err
	}
	return j.Do(ctx, &node.Node{Client: client, Settings: j.Settings, Invocation: run.NewInvocation(), Command: "podrun child"})
}

// Do runs the job with an engine.
func (j Job) Do(ctx context.Context, e *run.Node) error {
	if j.Manifest != "" {
		objects, err := parse(j.Manifest)
		if err != nil {
			return err
		}
		results, err := run.ApplyPods(ctx, e, objects, run.ApplyOptions{Timeout: Timeout, AllowKubelet: true})
		return ErrorOf(results, err)
	}
	known, err := lookup.Find(ctx, e, lookup.Selector{})
	if err != nil {
		return err
	}
	if j.Stop {
		return ErrorOf(run.StopPods(ctx, e, known, run.DeleteOptions{}), nil)
	}
	results, err := run.DeletePods(ctx, e, known, run.DeleteOptions{})
	return ErrorOf(results, err)
}

// command returns the child process that runs the job with a runtime on a socket.
func (j Job) command(ctx context.Context, t testing.TB, socket string, s nodeconfig.Settings) *exec.Cmd {
	t.Helper()
	j.Endpoint, j.Settings = "unix://"+socket, s
	job, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), jobVariable+"="+string(job))
	return child
}

// KillAt runs a child process with a runtime on a socket. It kills the child with SIGKILL at the
// given step, before or after the effect of the call.
func (h *Host) KillAt(at Step, after bool, text string) {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(h.T.Context(), 3*time.Minute)
	defer cancel()
	socket := filepath.Join(h.T.TempDir(), "cri.sock")
	stop, err := h.Runtime.Serve(socket)
	if err != nil {
		h.T.Fatal(err)
	}
	defer stop()
	child := Job{Manifest: text}.command(ctx, h.T, socket, h.Settings)
	started := make(chan struct{})
	// The child can be killed only when its PID is known, because process ID 0 means the whole
	// process group.
	kill := func() {
		<-started
		// the test checks the exit state of the process
		_ = child.Process.Kill()
	}
	fault := critest.Fault{When: critest.Before, Skip: at.N, Times: 1}
	if after {
		fault.When, fault.Done = critest.EffectThenHang, kill
	}
	// Match is called for every call of the method, including those that Skip counts.
	calls := 0
	fault.Match = func(proto.Message) bool {
		if calls++; calls == at.N+1 && !after {
			kill()
		}
		return true
	}
	clear := h.Runtime.Fault(at.Method, fault)
	defer clear()
	if err := child.Start(); err != nil {
		h.T.Fatal(err)
	}
	close(started)
	err = child.Wait()
	if ws, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ctx.Err() != nil {
		h.T.Fatalf("the child was not killed at %s %d: %v", at.Method, at.N, err)
	}
}

// ErrInterrupted is the cause with which a test cancels the context of a command, as a signal does.
var ErrInterrupted = errors.New("ended by SIGINT")

// Step identifies the n-th call of a method.
type Step struct {
	Method string
	N      int
}

// Reads reports whether a call only reads.
func (s Step) Reads() bool {
	return !slices.Contains([]string{"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer",
		"StopContainer", "RemoveContainer", "PullImage", "ExecSync"}, s.Method)
}
