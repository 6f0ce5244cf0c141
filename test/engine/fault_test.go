package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/ring"
)

// faultPod requires every CRI call that apply and delete make. It has an image that is present
// and one that is not, an init container, a sidecar, and hooks.
var faultPod = podText("web", "Always", "terminationGracePeriodSeconds: 5", "initContainers:",
	"- {name: setup, image: registry.example/setup:1}",
	"- {name: side, image: registry.example/web:1, restartPolicy: Always}",
	"containers:",
	"- {name: app, image: registry.example/far:1, lifecycle: {postStart: {exec: {command: [x]}}, preStop: {exec: {command: [x]}}}}",
	"- {name: last, image: registry.example/app:1}")

// faultRig returns a host for faultPod. It uses real cgroups only if the call at the given step
// makes changes, because real cgroups take most of the time of a test.
func faultRig(t *testing.T, at step) *rig {
	r := newRig(t)
	r.settings.CgroupsPerQOS = !at.reads()
	r.rt.Script("setup", critest.Behavior{After: time.Millisecond})
	r.rt.AddRemote(critest.Image{Name: "registry.example/far:1", Entrypoint: []string{"/server"}})
	r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
	return r
}

// mishap is one way in which a call fails.
type mishap struct {
	name    string
	fault   critest.Fault
	cancel  bool          // true if Ctrl-C arrives while the call hangs
	timeout time.Duration // timeout of the command; 0 for the default
	kinds   []problem.Kind
}

var errCtrlC = errors.New("ended by SIGINT")

var mishaps = []mishap{
	{name: "before", fault: critest.Fault{When: critest.Before}, kinds: []problem.Kind{problem.Runtime, problem.Failed}},
	{name: "after", fault: critest.Fault{When: critest.After}, kinds: []problem.Kind{problem.Runtime, problem.Failed}},
	{name: "hangs", fault: critest.Fault{When: critest.Hang}, kinds: []problem.Kind{problem.Runtime, problem.Deadline}},
	{name: "hangs until the deadline", fault: critest.Fault{When: critest.Hang}, timeout: time.Minute, kinds: []problem.Kind{problem.Deadline}},
	{name: "works and hangs", fault: critest.Fault{When: critest.EffectThenHang}, kinds: []problem.Kind{problem.Runtime, problem.Deadline}},
	{name: "works and hangs until the deadline", fault: critest.Fault{When: critest.EffectThenHang}, timeout: time.Minute, kinds: []problem.Kind{problem.Deadline}},
	{name: "hangs until Ctrl-C", fault: critest.Fault{When: critest.Hang}, cancel: true},
	{name: "works and hangs until Ctrl-C", fault: critest.Fault{When: critest.EffectThenHang}, cancel: true},
	{name: "works 3 s after Ctrl-C", fault: critest.Fault{When: critest.Late, Delay: 6 * time.Second}, cancel: true},
	{name: "is slow", fault: critest.Fault{When: critest.Slow, Delay: 90 * time.Second}},
}

// step identifies the n-th call of a method.
type step struct {
	method string
	n      int
}

// reads reports whether a call only reads.
func (s step) reads() bool {
	return !slices.Contains([]string{"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer",
		"StopContainer", "RemoveContainer", "PullImage", "ExecSync"}, s.method)
}

// mishaps returns the useful mishaps for a call. If a call only reads, it does not matter
// whether it has taken effect, or which side aborts it, so mishaps omits these variants.
func (s step) mishaps() []mishap {
	if !s.reads() {
		return mishaps
	}
	return slices.DeleteFunc(slices.Clone(mishaps), func(m mishap) bool {
		return m.fault.When == critest.After || m.fault.When == critest.EffectThenHang || m.fault.When == critest.Late ||
			m.fault.When == critest.Slow || m.name == "hangs"
	})
}

// stepsOf lists the calls that do makes if no call fails.
func stepsOf(t *testing.T, do func(*rig)) []step {
	t.Helper()
	// In the bubble, a skip would not skip the caller.
	requireRoot(t)
	var out []step
	synctest.Test(t, func(t *testing.T) {
		r := faultRig(t, step{})
		do(r)
		seen := map[string]int{}
		for _, c := range r.rt.Calls() {
			out = append(out, step{c.Method, seen[c.Method]})
			seen[c.Method]++
		}
		removeAll(r)
	})
	return out
}

func removeAll(r *rig) {
	r.rt.ForgetCalls()
	r.mustDelete()
}

// hitBy injects the mishap m at the given step, calls action, and returns the action's duration and
// whether the step was reached. If the mishap requires a cancellation, hitBy cancels the context of
// action 3 s after the step has begun.
func (r *rig) hitBy(m mishap, at step, action func(context.Context)) (took time.Duration, hit bool) {
	fault := m.fault
	fault.Skip, fault.Times = at.n, 1
	ctx, cancel := context.WithCancelCause(r.t.Context())
	defer cancel(nil)
	clear := r.rt.Fault(at.method, fault)
	done := make(chan struct{})
	if m.cancel {
		go r.cancelDuring(at, done, func() { cancel(errCtrlC) })
	}
	begun := time.Now()
	action(ctx)
	took = time.Since(begun)
	close(done)
	clear()
	return took, r.callsTo(at.method) > at.n
}

// cancelDuring calls cancel 3 s after the step has begun.
func (r *rig) cancelDuring(at step, done chan struct{}, cancel func()) {
	for r.callsTo(at.method) <= at.n {
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	select {
	case <-done:
	case <-time.After(3 * time.Second):
		cancel()
	}
}

func (r *rig) callsTo(method string) int { return len(r.rt.CallNames(method)) }

// TestApplyFaults makes each call of an apply fail, in every way. If a call before the first
// StartContainer fails, apply must leave nothing behind. If a later call fails, apply must keep the
// pod, another apply must continue, and delete must leave nothing behind.
func TestApplyFaults(t *testing.T) {
	t.Parallel()
	steps := stepsOf(t, func(r *rig) { r.mustApply(faultPod, run.OutcomeCreated) })
	if len(steps) < 25 {
		t.Fatalf("only %d calls", len(steps))
	}
	for _, at := range steps {
		for _, m := range at.mishaps() {
			t.Run(fmt.Sprintf("%s/%d/%s", at.method, at.n, m.name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { applyFault(t, at, m) })
			})
		}
	}
}

func applyFault(t *testing.T, at step, m mishap) {
	r := faultRig(t, at)
	var result run.Result
	timeout := m.timeout
	if timeout == 0 {
		timeout = testTimeout
	}
	took, hit := r.hitBy(m, at, func(ctx context.Context) { result = r.applyWithin(ctx, faultPod, timeout) })
	if !hit {
		t.Fatal("the call was not made")
	}
	// The time limit of a rollback is 30 s, and that of the runtime's last call is 5 s.
	if took > timeout+lease.UndoTimeout+5*time.Second {
		t.Errorf("took %s", took)
	}
	started := slices.Contains(r.rt.CallNames("StartContainer"), "StartContainer setup")
	t.Logf("%s: %v", result.Outcome, result.Err)
	if result.Err == nil {
		if result.Outcome != run.OutcomeCreated {
			t.Errorf("%s", result.Outcome)
		}
	} else {
		checkFaultErr(t, result.Err, at, m)
		// After this time, the runtime has completed its late calls.
		time.Sleep(time.Minute)
		if !started {
			r.nothingLeft()
		}
	}
	if !started && result.Err == nil {
		t.Error("nothing was started")
	}
	r.noLockHeld()
	again := r.apply(faultPod)
	if again.Err != nil {
		t.Errorf("again: %v", again.Err)
	}
	r.oneReadySandbox()
	if c, ok := r.rt.Container("app"); !ok || c.State != 1 {
		t.Errorf("app is %v", c.State)
	}
	r.mustDelete()
}

// oneReadySandbox checks that the pod has at most one ready sandbox (containerd#12438).
func (r *rig) oneReadySandbox() {
	r.t.Helper()
	ready := 0
	for _, s := range r.rt.Sandboxes() {
		if s.Ready {
			ready++
		}
	}
	if ready != 1 {
		r.t.Errorf("%d sandboxes are ready", ready)
	}
}

// checkFaultErr checks that an error has the right kind, names its object, and states which
// operation failed.
func checkFaultErr(t *testing.T, err error, at step, m mishap) {
	t.Helper()
	if m.cancel {
		if !errors.Is(err, errCtrlC) {
			t.Errorf("the error is not the reason why the command exited: %v", err)
		}
	} else if !slices.Contains(m.kinds, kindOf(err)) {
		t.Errorf("kind %q, want one of %q: %v", kindOf(err), m.kinds, err)
	}
	text := err.Error()
	named := false
	for _, object := range []string{"pod default/web", "container ", "runtime", "endpoint"} {
		named = named || strings.Contains(text, object)
	}
	if !named {
		t.Errorf("the error names no object: %s", text)
	}
	if strings.Count(text, "pod default/web") > 1 || strings.Count(text, "ended by SIGINT") > 1 || strings.Count(text, "timed out") > 1 {
		t.Errorf("the error repeats itself: %s", text)
	}
}

// TestDeleteFaults makes each call of a delete fail, in every way. Another delete must remove the
// remaining objects.
func TestDeleteFaults(t *testing.T) {
	t.Parallel()
	steps := stepsOf(t, func(r *rig) {
		r.mustApply(faultPod, run.OutcomeCreated)
		r.rt.ForgetCalls()
		r.mustDelete()
	})
	for _, at := range steps {
		for _, m := range at.mishaps() {
			t.Run(fmt.Sprintf("%s/%d/%s", at.method, at.n, m.name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { deleteFault(t, at, m) })
			})
		}
	}
}

func deleteFault(t *testing.T, at step, m mishap) {
	r := faultRig(t, at)
	r.mustApply(faultPod, run.OutcomeCreated)
	r.rt.ForgetCalls()
	var err error
	_, hit := r.hitBy(m, at, func(ctx context.Context) {
		e := r.engine()
		var known []run.Known
		if known, err = lookup.Find(ctx, e, lookup.Selector{}); err != nil {
			return
		}
		var results []run.Result
		results, err = run.DeletePods(ctx, e, known, run.DeleteOptions{Timeout: m.timeout})
		if err == nil {
			err = results[0].Err
		}
	})
	if !hit {
		t.Fatal("the call was not made")
	}
	t.Logf("%v", err)
	if err == nil {
		r.nothingLeft()
	} else if at.method != "ListPodSandbox" || at.n > 0 { // Find does not have a timeout
		checkFaultErr(t, err, at, m)
	}
	time.Sleep(time.Minute)
	r.noLockHeld()
	r.mustDelete()
}

// TestReplaceFaults makes each call of a replacement fail. Another apply must converge, and delete
// must leave nothing behind.
func TestReplaceFaults(t *testing.T) {
	t.Parallel()
	next := strings.Replace(faultPod, "registry.example/app:1}", "registry.example/app:1, args: [x]}", 1)
	steps := stepsOf(t, func(r *rig) {
		r.mustApply(faultPod, run.OutcomeCreated)
		r.rt.ForgetCalls()
		r.mustApply(next, run.OutcomeReplaced)
	})
	for _, at := range steps {
		for _, m := range at.mishaps() {
			if m.name != "before" && m.name != "after" && m.name != "works and hangs until Ctrl-C" && m.name != "hangs until Ctrl-C" {
				// The other mishaps differ only in how long they wait.
				continue
			}
			t.Run(fmt.Sprintf("%s/%d/%s", at.method, at.n, m.name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := faultRig(t, at)
					first := r.mustApply(faultPod, run.OutcomeCreated)
					r.rt.ForgetCalls()
					var result run.Result
					if _, hit := r.hitBy(m, at, func(ctx context.Context) { result = r.applyWithin(ctx, next, testTimeout) }); !hit {
						t.Fatal("the call was not made")
					}
					t.Logf("%s: %v", result.Outcome, result.Err)
					if result.Err != nil {
						checkFaultErr(t, result.Err, at, m)
					}
					r.noLockHeld()
					if again := r.apply(next); again.Err != nil || again.ID.UID == first.ID.UID {
						t.Errorf("again: %s, %v", again.ID.UID, again.Err)
					}
					r.oneReadySandbox()
					r.mustDelete()
				})
			})
		}
	}
}

// TestRollbackInAnOutage covers a runtime that restarts while podrun rolls back. podrun must retry the removal
// of the sandbox, with pauses, so that none of the pod's objects remains.
func TestRollbackInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("no space left on device"), Delay: time.Second})
		go func() {
			for r.callsTo("CreateContainer") == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			end := r.outage()
			time.Sleep(4 * time.Second)
			end()
		}()
		result := r.apply(one("Always"))
		if result.Err == nil || strings.Contains(result.Err.Error(), "not removed") {
			t.Errorf("the error is %v", result.Err)
		}
		r.nothingLeft()
		r.noLockHeld()
		if calls := r.callsTo("ListPodSandbox"); calls > 20 {
			t.Errorf("%d calls during the outage", calls)
		}
	})
}

// TestRollbackInALongOutage covers a runtime that remains unavailable. The rollback must end, and must name
// the objects that were not removed.
func TestRollbackInALongOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("no space left on device"), Delay: time.Second})
		end := make(chan func(), 1)
		go func() {
			for r.callsTo("CreateContainer") == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			end <- r.outage()
		}()
		begun := time.Now()
		result := r.apply(one("Always"))
		if took := time.Since(begun); took > lease.UndoTimeout+5*time.Second {
			t.Errorf("took %s", took)
		}
		if result.Err == nil || !strings.Contains(result.Err.Error(), "clean up") {
			t.Errorf("the error is %v", result.Err)
		}
		(<-end)()
		r.mustDelete()
	})
}

// TestCancelIsNoFailure covers a sandbox whose creation podrun cancels. The sandbox has not failed,
// so no event may report a failure.
func TestCancelIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.rt.Fault("RunPodSandbox", critest.Fault{When: critest.Hang})()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(errCtrlC) })
		if result := r.applyWithin(ctx, one("Always"), testTimeout); !errors.Is(result.Err, errCtrlC) {
			t.Errorf("the error is %v", result.Err)
		}
		if slices.Contains(r.reasons(), "FailedCreatePodSandBox") {
			t.Errorf("events %q", r.reasons())
		}
		r.nothingLeft()
	})
}

// TestCgroupsOfACanceledSandbox covers a runtime that creates the pod's cgroup after podrun has canceled the
// creation of the sandbox and has removed the cgroups. The next pod's removal must remove the shared cgroups.
func TestCgroupsOfACanceledSandbox(t *testing.T) {
	t.Parallel()
	ring.RequireRoot(t)
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		restore := r.rt.Fault("RunPodSandbox", critest.Fault{When: critest.Hang})
		ctx, cancel := context.WithCancelCause(t.Context())
		var made []string
		time.AfterFunc(3*time.Second, func() {
			made = r.cgroupDirs()
			cancel(errCtrlC)
		})
		if result := r.applyWithin(ctx, one("Always"), testTimeout); !errors.Is(result.Err, errCtrlC) {
			t.Errorf("the error is %v", result.Err)
		}
		r.nothingLeft()
		restore()
		r.recreate(made)
		r.mustApply(one("Always"), run.OutcomeCreated)
		r.mustDelete()
		r.nothingLeft()
	})
}

// TestCgroupsOfAKilledSandbox is TestCgroupsOfACanceledSandbox for a podrun process that was killed while
// the runtime created the sandbox. The next process deletes the pod before the runtime creates the cgroups again.
func TestCgroupsOfAKilledSandbox(t *testing.T) {
	ring.RequireRoot(t)
	t.Parallel()
	r := newRig(t)
	late := r.killLate("RunPodSandbox", time.Second, childJob{Manifest: one("Always")})
	made := r.cgroupDirs()
	r.mustDelete()
	<-late
	r.nothingLeft()
	r.recreate(made)
	r.mustApply(one("Always"), run.OutcomeCreated)
	r.mustDelete()
	r.nothingLeft()
}

// cgroupDirs returns the cgroups of the rig's pods and their parents, parents first.
func (r *rig) cgroupDirs() []string {
	var dirs []string
	for _, root := range cgroupsOf(r.settings.CgroupRoot) {
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	return dirs
}

// recreate creates cgroups as a runtime does, without podrun's attributes.
func (r *rig) recreate(dirs []string) {
	r.t.Helper()
	if len(dirs) == 0 {
		r.t.Fatal("the pod had no cgroups")
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			r.t.Fatal(err)
		}
	}
}
