package start

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/test/engine/rig"
)

// crashing returns pods whose container exits repeatedly.
func crashing(policy string) string {
	return rig.PodText("web", policy, "containers: [{name: app, image: registry.example/app:1}]")
}

// applyReady runs `podrun apply --wait=ready`.
func applyReady(r *rig.Host, text string, timeout time.Duration) run.Result {
	r.T.Helper()
	results, err := run.ApplyPods(r.T.Context(), r.Engine(), rig.Load(r.T, text), run.ApplyOptions{Timeout: timeout, AllowKubelet: true, Wait: lifecycle.GoalReady})
	if err != nil {
		r.T.Fatal(err)
	}
	return results[0]
}

// TestCrashLoopIsNotReady covers a container that crashes soon after each start. podrun must never
// report it as ready, even if its pod already existed, and the error must name the exit.
func TestCrashLoopIsNotReady(t *testing.T) {
	t.Parallel()
	for _, goal := range []lifecycle.Goal{lifecycle.GoalReady, "condition=Ready", "condition=ContainersReady"} {
		t.Run(string(goal), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Runtime.Script("app", critest.Behavior{After: 300 * time.Millisecond, ExitCode: 3})
				result := applyReady(r, crashing("Always"), time.Minute)
				rig.WantErr(t, result.Err, problem.Deadline, "timed out after 1m0s", "container app exited with 3 (Error), 3 restarts, CrashLoopBackOff")
				result = run.Wait(t.Context(), r.Engine(), r.Known()[0], run.WaitOptions{For: goal, Timeout: 30 * time.Second})
				rig.WantErr(t, result.Err, problem.Deadline, "container app exited with 3 (Error)")
				r.MustDelete()
			})
		})
	}
}

// TestLateExitIsNotReady covers a runtime that reports the exit of a container so late that the
// container would already count as ready. podrun must not report it as ready without a newer
// observation.
func TestLateExitIsNotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{After: 50 * time.Millisecond, ExitCode: 3})
		r.Runtime.Fault("ContainerStatus", critest.Fault{When: critest.Slow, Delay: 3 * time.Second})
		result := applyReady(r, crashing("Never"), time.Minute)
		rig.WantErr(t, result.Err, problem.Failed, "container app exited with 3")
		r.MustDelete()
	})
}

// TestReadyAfterCrash checks that a container that crashed is ready when it has run longer than
// before.
func TestReadyAfterCrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{After: 700 * time.Millisecond, ExitCode: 3}, critest.Behavior{After: 900 * time.Millisecond, ExitCode: 4}, critest.Behavior{Forever: true})
		if result := applyReady(r, crashing("Always"), time.Minute); result.Err != nil {
			t.Fatal(result.Err)
		}
		c, _ := r.Runtime.Container("app")
		if c.Config.GetMetadata().GetAttempt() != 2 {
			t.Fatalf("reported as ready at attempt %d", c.Config.GetMetadata().GetAttempt())
		}
		ready := time.Now()
		if ran := ready.Sub(c.StartedAt); ran <= 900*time.Millisecond || ran > 3*time.Second {
			t.Errorf("reported as ready after it had run for %s; its previous run lasted 900 ms", ran)
		}
		// For every later command, the container has already run long enough.
		if result := run.Wait(t.Context(), r.Engine(), r.Known()[0], run.WaitOptions{For: lifecycle.GoalReady}); result.Err != nil || time.Since(ready) > time.Second {
			t.Errorf("a later wait: %v after %s", result.Err, time.Since(ready))
		}
		r.MustDelete()
	})
}

// TestEndedIsNotReady checks that a pod that terminates immediately is not ready, although its
// container has run.
func TestEndedIsNotReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{After: 300 * time.Millisecond, ExitCode: 3})
		rig.WantErr(t, applyReady(r, crashing("Never"), time.Minute).Err, problem.Failed, "container app exited with 3")
		r.MustDelete()
		r.Runtime.Script("app", critest.Behavior{After: 300 * time.Millisecond})
		if result := applyReady(r, crashing("OnFailure"), time.Minute); result.Err != nil || result.Outcome != run.OutcomeCreated {
			t.Errorf("a pod that succeeds: %s, %v", result.Outcome, result.Err)
		}
		r.MustDelete()
	})
}
