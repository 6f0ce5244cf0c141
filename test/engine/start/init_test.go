package start

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestApplyInitExits checks how the restart policy and the exit code of an init container determine
// the next actions.
func TestApplyInitExits(t *testing.T) {
	t.Parallel()
	t.Run("Never", func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("setup", critest.Behavior{ExitCode: 7})
		result := r.Apply(rig.WebWithInit("Never"))
		rig.WantErr(t, result.Err, problem.Failed, "pod default/web", "container setup exited with 7 (Error)")
		if result.Status.Phase != corev1.PodFailed {
			t.Errorf("phase %s", result.Status.Phase)
		}
		rig.WantChanges(t, r.Runtime, "RunPodSandbox", "CreateContainer setup", "StartContainer setup", "StopPodSandbox")
		// podrun keeps the pod for diagnosis, and the pod remains failed.
		again := r.Apply(rig.WebWithInit("Never"))
		rig.WantErr(t, again.Err, problem.Failed, "container setup exited with 7")
		rig.WantChanges(t, r.Runtime)
		r.MustDelete()
	})
	t.Run("OnFailure until it succeeds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Script("setup", critest.Behavior{ExitCode: 1}, critest.Behavior{ExitCode: 1}, critest.Behavior{ExitCode: 1}, critest.Behavior{})
			begun := time.Now()
			r.MustApply(rig.WebWithInit("OnFailure"), run.OutcomeCreated)
			// The three restarts happen immediately, after 10 s, and after 20 s.
			if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
				t.Errorf("took %s", took)
			}
			if n := rig.Count(r.Runtime.Changes(), "StartContainer setup"); n != 4 {
				t.Errorf("started %d times", n)
			}
			if n := rig.Count(r.Reasons(), "BackOff setup"); n != 2 {
				t.Errorf("%d BackOff among %q", n, r.Reasons())
			}
			// podrun keeps one earlier run, as the kubelet does.
			if n := len(r.Runtime.Containers()); n != 3 {
				t.Errorf("%d containers are kept", n)
			}
			r.MustDelete()
		})
	})
	t.Run("Always until the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Script("setup", critest.Behavior{ExitCode: 1})
			begun := time.Now()
			result := r.Apply(rig.WebWithInit("Always"))
			rig.WantErr(t, result.Err, problem.Deadline, "timed out after 10m0s", "init container setup has not finished")
			if took := time.Since(begun); took < rig.Timeout || took > rig.Timeout+time.Second {
				t.Errorf("took %s", took)
			}
			// The restarts are at 0, 10, 30, 70, 150 and 310 s. The next would be at 610 s.
			if n := rig.Count(r.Runtime.Changes(), "StartContainer setup"); n != 7 {
				t.Errorf("started %d times", n)
			}
			r.MustDelete()
		})
	})
}
