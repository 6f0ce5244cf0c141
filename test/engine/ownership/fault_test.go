package ownership

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
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/ring"
)

// faultPod requires every CRI call that apply and delete make. It has an image that is present
// and one that is not, an init container, a sidecar, and hooks.
var faultPod = rig.PodText("web", "Always", "terminationGracePeriodSeconds: 5", "initContainers:",
	"- {name: setup, image: registry.example/setup:1}",
	"- {name: side, image: registry.example/web:1, restartPolicy: Always}",
	"containers:",
	"- {name: app, image: registry.example/far:1, lifecycle: {postStart: {exec: {command: [x]}}, preStop: {exec: {command: [x]}}}}",
	"- {name: last, image: registry.example/app:1}")

// faultRig returns a host for faultPod. It uses real cgroups only if the call at the given step
// makes changes, because real cgroups take most of the time of a test.
func faultRig(t *testing.T, at rig.Step) *rig.Host {
	r := rig.New(t)
	r.Settings.CgroupsPerQOS = !at.Reads()
	r.Runtime.Script("setup", critest.Behavior{After: time.Millisecond})
	r.Runtime.AddRemote(critest.Image{Name: "registry.example/far:1", Entrypoint: []string{"/server"}})
	r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
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

// mishapsAt returns the useful mishaps for a call. If a call only reads, it does not matter
// whether it has taken effect, or which side aborts it, so mishaps omits these variants.
func mishapsAt(s rig.Step) []mishap {
	if !s.Reads() {
		return mishaps
	}
	return slices.DeleteFunc(slices.Clone(mishaps), func(m mishap) bool {
		return m.fault.When == critest.After || m.fault.When == critest.EffectThenHang || m.fault.When == critest.Late ||
			m.fault.When == critest.Slow || m.name == "hangs"
	})
}

// stepsOf lists the calls that do makes if no call fails.
func stepsOf(t *testing.T, do func(*rig.Host)) []rig.Step {
	t.Helper()
	// In the bubble, a skip would not skip the caller.
	ring.RequireRoot(t)
	var out []rig.Step
	synctest.Test(t, func(t *testing.T) {
		r := faultRig(t, rig.Step{})
		do(r)
		seen := map[string]int{}
		for _, c := range r.Runtime.Calls() {
			out = append(out, rig.Step{Method: c.Method, N: seen[c.Method]})
			seen[c.Method]++
		}
		removeAll(r)
	})
	return out
}

func removeAll(r *rig.Host) {
	r.Runtime.ForgetCalls()
	r.MustDelete()
}

// hitBy injects the mishap m at the given step, calls action, and returns the action's duration and
// whether the step was reached. If the mishap requires a cancellation, hitBy cancels the context of
// action 3 s after the step has begun.
func hitBy(r *rig.Host, m mishap, at rig.Step, action func(context.Context)) (took time.Duration, hit bool) {
	fault := m.fault
	fault.Skip, fault.Times = at.N, 1
	ctx, cancel := context.WithCancelCause(r.T.Context())
	defer cancel(nil)
	clear := r.Runtime.Fault(at.Method, fault)
	done := make(chan struct{})
	if m.cancel {
		go cancelDuring(r, at, done, func() { cancel(rig.ErrInterrupted) })
	}
	begun := time.Now()
	action(ctx)
	took = time.Since(begun)
	close(done)
	clear()
	return took, r.CallsTo(at.Method) > at.N
}

// cancelDuring calls cancel 3 s after the step has begun.
func cancelDuring(r *rig.Host, at rig.Step, done chan struct{}, cancel func()) {
	for r.CallsTo(at.Method) <= at.N {
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

// TestApplyFaults makes each call of an apply fail, in every way. If a call before the first
// StartContainer fails, apply must leave nothing behind. If a later call fails, apply must keep the
// pod, another apply must continue, and delete must leave nothing behind.
func TestApplyFaults(t *testing.T) {
	t.Parallel()
	steps := stepsOf(t, func(r *rig.Host) { r.MustApply(faultPod, run.OutcomeCreated) })
	if len(steps) < 25 {
		t.Fatalf("only %d calls", len(steps))
	}
	for _, at := range steps {
		for _, m := range mishapsAt(at) {
			t.Run(fmt.Sprintf("%s/%d/%s", at.Method, at.N, m.name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { applyFault(t, at, m) })
			})
		}
	}
}

func applyFault(t *testing.T, at rig.Step, m mishap) {
	r := faultRig(t, at)
	var result run.Result
	timeout := m.timeout
	if timeout == 0 {
		timeout = rig.Timeout
	}
	took, hit := hitBy(r, m, at, func(ctx context.Context) { result = r.ApplyWithin(ctx, faultPod, timeout) })
	if !hit {
		t.Fatal("the call was not made")
	}
	// The time limit of a rollback is 30 s, and that of the runtime's last call is 5 s.
	if took > timeout+lease.UndoTimeout+5*time.Second {
		t.Errorf("took %s", took)
	}
	started := slices.Contains(r.Runtime.CallNames("StartContainer"), "StartContainer setup")
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
			r.NothingLeft()
		}
	}
	if !started && result.Err == nil {
		t.Error("nothing was started")
	}
	r.NoLockHeld()
	again := r.Apply(faultPod)
	if again.Err != nil {
		t.Errorf("again: %v", again.Err)
	}
	r.OneReadySandbox()
	if c, ok := r.Runtime.Container("app"); !ok || c.State != 1 {
		t.Errorf("app is %v", c.State)
	}
	r.MustDelete()
}

// checkFaultErr checks that an error has the right kind, names its object, and states which
// operation failed.
func checkFaultErr(t *testing.T, err error, at rig.Step, m mishap) {
	t.Helper()
	if m.cancel {
		if !errors.Is(err, rig.ErrInterrupted) {
			t.Errorf("the error is not the reason why the command exited: %v", err)
		}
	} else if !slices.Contains(m.kinds, rig.KindOf(err)) {
		t.Errorf("kind %q, want one of %q: %v", rig.KindOf(err), m.kinds, err)
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
	steps := stepsOf(t, func(r *rig.Host) {
		r.MustApply(faultPod, run.OutcomeCreated)
		r.Runtime.ForgetCalls()
		r.MustDelete()
	})
	for _, at := range steps {
		for _, m := range mishapsAt(at) {
			t.Run(fmt.Sprintf("%s/%d/%s", at.Method, at.N, m.name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { deleteFault(t, at, m) })
			})
		}
	}
}

func deleteFault(t *testing.T, at rig.Step, m mishap) {
	r := faultRig(t, at)
	r.MustApply(faultPod, run.OutcomeCreated)
	r.Runtime.ForgetCalls()
	var err error
	_, hit := hitBy(r, m, at, func(ctx context.Context) {
		e := r.Engine()
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
		r.NothingLeft()
	} else if at.Method != "ListPodSandbox" || at.N > 0 { // Find does not have a timeout
		checkFaultErr(t, err, at, m)
	}
	time.Sleep(time.Minute)
	r.NoLockHeld()
	r.MustDelete()
}

// TestReplaceFaults makes each call of a replacement fail. Another apply must converge, and delete
// must leave nothing behind.
func TestReplaceFaults(t *testing.T) {
	t.Parallel()
	next := strings.Replace(faultPod, "registry.example/app:1}", "registry.example/app:1, args: [x]}", 1)
	steps := stepsOf(t, func(r *rig.Host) {
		r.MustApply(faultPod, run.OutcomeCreated)
		r.Runtime.ForgetCalls()
		r.MustApply(next, run.OutcomeReplaced)
	})
	for _, at := range steps {
		for _, m := range mishapsAt(at) {
			if m.name != "before" && m.name != "after" && m.name != "works and hangs until Ctrl-C" && m.name != "hangs until Ctrl-C" {
				// The other mishaps differ only in how long they wait.
				continue
			}
			t.Run(fmt.Sprintf("%s/%d/%s", at.Method, at.N, m.name), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := faultRig(t, at)
					first := r.MustApply(faultPod, run.OutcomeCreated)
					r.Runtime.ForgetCalls()
					var result run.Result
					if _, hit := hitBy(r, m, at, func(ctx context.Context) { result = r.ApplyWithin(ctx, next, rig.Timeout) }); !hit {
						t.Fatal("the call was not made")
					}
					t.Logf("%s: %v", result.Outcome, result.Err)
					if result.Err != nil {
						checkFaultErr(t, result.Err, at, m)
					}
					r.NoLockHeld()
					if again := r.Apply(next); again.Err != nil || again.ID.UID == first.ID.UID {
						t.Errorf("again: %s, %v", again.ID.UID, again.Err)
					}
					r.OneReadySandbox()
					r.MustDelete()
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
		r := rig.New(t)
		r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("no space left on device"), Delay: time.Second})
		go func() {
			for r.CallsTo("CreateContainer") == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			end := r.Outage()
			time.Sleep(4 * time.Second)
			end()
		}()
		result := r.Apply(rig.Web("Always"))
		if result.Err == nil || strings.Contains(result.Err.Error(), "not removed") {
			t.Errorf("the error is %v", result.Err)
		}
		r.NothingLeft()
		r.NoLockHeld()
		if calls := r.CallsTo("ListPodSandbox"); calls > 20 {
			t.Errorf("%d calls during the outage", calls)
		}
	})
}

// TestRollbackInALongOutage covers a runtime that remains unavailable. The rollback must end, and must name
// the objects that were not removed.
func TestRollbackInALongOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: errors.New("no space left on device"), Delay: time.Second})
		end := make(chan func(), 1)
		go func() {
			for r.CallsTo("CreateContainer") == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			end <- r.Outage()
		}()
		begun := time.Now()
		result := r.Apply(rig.Web("Always"))
		if took := time.Since(begun); took > lease.UndoTimeout+5*time.Second {
			t.Errorf("took %s", took)
		}
		if result.Err == nil || !strings.Contains(result.Err.Error(), "clean up") {
			t.Errorf("the error is %v", result.Err)
		}
		(<-end)()
		r.MustDelete()
	})
}

// TestCancelIsNoFailure covers a sandbox whose creation podrun cancels. The sandbox has not failed,
// so no event may report a failure.
func TestCancelIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		defer r.Runtime.Fault("RunPodSandbox", critest.Fault{When: critest.Hang})()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(3*time.Second, func() { cancel(rig.ErrInterrupted) })
		if result := r.ApplyWithin(ctx, rig.Web("Always"), rig.Timeout); !errors.Is(result.Err, rig.ErrInterrupted) {
			t.Errorf("the error is %v", result.Err)
		}
		if slices.Contains(r.Reasons(), "FailedCreatePodSandBox") {
			t.Errorf("events %q", r.Reasons())
		}
		r.NothingLeft()
	})
}

// TestCgroupsOfACanceledSandbox covers a runtime that creates the pod's cgroup after podrun has canceled the
// creation of the sandbox and has removed the cgroups. The next pod's removal must remove the shared cgroups.
func TestCgroupsOfACanceledSandbox(t *testing.T) {
	t.Parallel()
	ring.RequireRoot(t)
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		restore := r.Runtime.Fault("RunPodSandbox", critest.Fault{When: critest.Hang})
		ctx, cancel := context.WithCancelCause(t.Context())
		var made []string
		time.AfterFunc(3*time.Second, func() {
			made = cgroupDirs(r)
			cancel(rig.ErrInterrupted)
		})
		if result := r.ApplyWithin(ctx, rig.Web("Always"), rig.Timeout); !errors.Is(result.Err, rig.ErrInterrupted) {
			t.Errorf("the error is %v", result.Err)
		}
		r.NothingLeft()
		restore()
		recreate(r, made)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		r.MustDelete()
		r.NothingLeft()
	})
}

// TestCgroupsOfAKilledSandbox is TestCgroupsOfACanceledSandbox for a podrun process that was killed while
// the runtime created the sandbox. The next process deletes the pod before the runtime creates the cgroups again.
func TestCgroupsOfAKilledSandbox(t *testing.T) {
	ring.RequireRoot(t)
	t.Parallel()
	r := rig.New(t)
	late := r.KillLate("RunPodSandbox", time.Second, rig.Job{Manifest: rig.Web("Always")})
	made := cgroupDirs(r)
	r.MustDelete()
	<-late
	r.NothingLeft()
	recreate(r, made)
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	r.MustDelete()
	r.NothingLeft()
}

// cgroupDirs returns the cgroups of the rig's pods and their parents, parents first.
func cgroupDirs(r *rig.Host) []string {
	var dirs []string
	for _, root := range rig.CgroupsOf(r.Settings.CgroupRoot) {
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
func recreate(r *rig.Host, dirs []string) {
	r.T.Helper()
	if len(dirs) == 0 {
		r.T.Fatal("the pod had no cgroups")
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			r.T.Fatal(err)
		}
	}
}
