package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// TestApplyInitExits checks how the restart policy and the exit code of an init container determine
// the next actions.
func TestApplyInitExits(t *testing.T) {
	t.Parallel()
	t.Run("Never", func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("setup", critest.Behavior{ExitCode: 7})
		result := r.apply(withInit("Never"))
		wantErr(t, result.Err, problem.Failed, "pod default/web", "container setup exited with 7 (Error)")
		if result.Status.Phase != corev1.PodFailed {
			t.Errorf("phase %s", result.Status.Phase)
		}
		wantChanges(t, r.rt, "RunPodSandbox", "CreateContainer setup", "StartContainer setup", "StopPodSandbox")
		// podrun keeps the pod for diagnosis, and the pod remains failed.
		again := r.apply(withInit("Never"))
		wantErr(t, again.Err, problem.Failed, "container setup exited with 7")
		wantChanges(t, r.rt)
		r.mustDelete()
	})
	for _, policy := range []string{"OnFailure", "Always"} {
		t.Run(policy+" until it succeeds", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.rt.Script("setup", critest.Behavior{ExitCode: 1}, critest.Behavior{ExitCode: 1}, critest.Behavior{ExitCode: 1}, critest.Behavior{})
				begun := time.Now()
				r.mustApply(withInit(policy), run.OutcomeCreated)
				// The three restarts happen immediately, after 10 s, and after 20 s.
				if took := time.Since(begun); took < 30*time.Second || took > 31*time.Second {
					t.Errorf("took %s", took)
				}
				if n := countOf(r.rt.Changes(), "StartContainer setup"); n != 4 {
					t.Errorf("started %d times", n)
				}
				if n := countOf(r.reasons(), "BackOff setup"); n != 2 {
					t.Errorf("%d BackOff among %q", n, r.reasons())
				}
				// podrun keeps one earlier run, as the kubelet does.
				if n := len(r.rt.Containers()); n != 3 {
					t.Errorf("%d containers are kept", n)
				}
				r.mustDelete()
			})
		})
	}
	t.Run("Always until the deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Script("setup", critest.Behavior{ExitCode: 1})
			begun := time.Now()
			result := r.apply(withInit("Always"))
			wantErr(t, result.Err, problem.Deadline, "timed out after 10m0s", "init container setup has not finished")
			if took := time.Since(begun); took < testTimeout || took > testTimeout+time.Second {
				t.Errorf("took %s", took)
			}
			// The restarts are at 0, 10, 30, 70, 150 and 310 s. The next would be at 610 s.
			if n := countOf(r.rt.Changes(), "StartContainer setup"); n != 7 {
				t.Errorf("started %d times", n)
			}
			r.mustDelete()
		})
	})
}

func countOf(list []string, what string) int {
	n := 0
	for _, s := range list {
		if s == what {
			n++
		}
	}
	return n
}

func TestApplySidecarOfCompletedPod(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"runs", "has exited"} {
		t.Run(end, func(t *testing.T) {
			r := newRig(t)
			text := podText("web", "Never", "initContainers: [{name: side, image: registry.example/web:1, restartPolicy: Always}]",
				"containers: [{name: app, image: registry.example/app:1}]")
			r.mustApply(text, run.OutcomeCreated)
			if end == "has exited" {
				r.exit("side", 137)
			}
			r.exit("app", 0)
			r.rt.ForgetCalls()
			result := r.mustApply(text, run.OutcomeUnchanged)
			if result.Status.Phase != corev1.PodSucceeded {
				t.Errorf("phase %s", result.Status.Phase)
			}
			// The app containers have completed. Like a kubelet, podrun stops the sidecar and the
			// sandbox, and ignores the sidecar's exit code.
			if c, _ := r.rt.Container("side"); c.State != runtimeapi.ContainerState_CONTAINER_EXITED {
				t.Errorf("the sidecar is %s", c.State)
			}
			if r.rt.Sandboxes()[0].Ready {
				t.Error("the sandbox has not released its address")
			}
			if slices.Contains(r.rt.Changes(), "StartContainer side") {
				t.Errorf("the sidecar was restarted: %q", r.rt.Changes())
			}
			r.mustApply(text, run.OutcomeUnchanged)
			r.mustDelete()
		})
	}
}

// TestApplySidecarDiesBeforeInit checks that podrun restarts a sidecar that exits while an init
// container waits for it.
func TestApplySidecarDiesBeforeInit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("side", critest.Behavior{After: time.Second, ExitCode: 1}, critest.Behavior{Forever: true})
		r.rt.Script("setup", critest.Behavior{After: 20 * time.Second})
		text := podText("web", "Always", "initContainers:", "- {name: side, image: registry.example/web:1, restartPolicy: Always}",
			"- {name: setup, image: registry.example/setup:1}", "containers: [{name: app, image: registry.example/app:1}]")
		r.mustApply(text, run.OutcomeCreated)
		wantChanges(t, r.rt, "RunPodSandbox", "CreateContainer side", "StartContainer side", "CreateContainer setup", "StartContainer setup",
			"CreateContainer side", "StartContainer side", "CreateContainer app", "StartContainer app")
		r.mustDelete()
	})
}
