package start

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestApplyFailingPostStart checks that podrun kills the container within its grace period, and
// still starts later containers, as the kubelet does.
func TestApplyFailingPostStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("first", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 4, Stderr: "the secret"} })
		text := rig.PodText("web", "Always", "terminationGracePeriodSeconds: 9", "containers:",
			"- {name: first, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: [sh, -c, exit 4]}}}}",
			"- {name: second, image: registry.example/web:1}")
		result := r.Apply(text)
		rig.WantErr(t, result.Err, problem.Failed, "container first", "postStart hook", "exited with 4")
		rig.WantChanges(t, r.Runtime, "RunPodSandbox", "CreateContainer first", "StartContainer first", "ExecSync first", "StopContainer first", "CreateContainer second", "StartContainer second")
		if !r.Emitted("FailedPostStartHook first", "PostStartHook failed") || !r.Emitted("Killing first", "FailedPostStartHook") {
			t.Errorf("events %q", r.Reasons())
		}
		for _, e := range r.Events() {
			if strings.Contains(e.Message, "secret") {
				t.Errorf("an event quotes the hook's output: %s", e.Message)
			}
		}
		// A second apply restarts the container and runs the hook again.
		r.Runtime.ScriptExec("first", nil)
		r.Runtime.ScriptExec("first", func([]string) *critest.Exec { return &critest.Exec{} })
		again := r.MustApply(text, run.OutcomeRestarted)
		if !slices.Equal(again.What, []string{"first"}) {
			t.Errorf("restarted %q", again.What)
		}
		rig.WantChanges(t, r.Runtime, "CreateContainer first", "StartContainer first", "ExecSync first")
		r.MustDelete()
	})
}

// TestApplyPostStartDeadlock covers a hook that waits for a later container and therefore never
// ends (k/k#59161, #81450). The command's timeout must end it, and the error must name the hook.
func TestApplyPostStartDeadlock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("first", func([]string) *critest.Exec { return &critest.Exec{After: 100 * time.Hour} })
		text := rig.PodText("web", "Always", "containers:",
			"- {name: first, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: [wait-for-second]}}}}",
			"- {name: second, image: registry.example/web:1}")
		begun := time.Now()
		result := r.Apply(text)
		rig.WantErr(t, result.Err, problem.Deadline, "timed out after 10m0s", "the postStart hook of container first")
		if took := time.Since(begun); took > rig.Timeout+time.Second {
			t.Errorf("took %s", took)
		}
		if n := len(r.Runtime.Containers()); n != 1 {
			t.Errorf("%d containers", n)
		}
		// podrun keeps the pod for diagnosis. Another apply runs the hook again, because it has not
		// completed.
		r.Runtime.ScriptExec("first", func([]string) *critest.Exec { return &critest.Exec{} })
		r.Runtime.ForgetCalls()
		if again := r.Apply(text); again.Err != nil {
			t.Error(again.Err)
		}
		rig.WantChanges(t, r.Runtime, "ExecSync first", "CreateContainer second", "StartContainer second")
		r.MustDelete()
	})
}

// TestApplyWhilePostStart checks that a command waits for a hook that another command is running,
// and does not run the hook a second time.
func TestApplyWhilePostStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 5 * time.Minute} })
		done := make(chan run.Result, 1)
		go func() { done <- r.Apply(rig.PodText("web", "Always", rig.WithPostStart)) }()
		time.Sleep(time.Minute)
		began := time.Now()
		second := r.Apply(rig.PodText("web", "Always", rig.WithPostStart))
		if took := time.Since(began); second.Err != nil || took < 3*time.Minute || took > 5*time.Minute {
			t.Errorf("the second apply: %v after %s", second.Err, took)
		}
		if first := <-done; first.Err != nil {
			t.Error(first.Err)
		}
		rig.WantChanges(t, r.Runtime, "RunPodSandbox", "CreateContainer app", "StartContainer app", "ExecSync app")
		if !slices.ContainsFunc(r.Warnings(), func(w string) bool {
			return strings.Contains(w, "waiting for another podrun process that runs the postStart hook")
		}) {
			t.Errorf("warnings %q", r.Warnings())
		}
		r.MustDelete()
	})
}

// TestRestartsWhileAnotherIsAdmitted covers an apply that restarts a container. While it runs
// the postStart hook, another apply of the pod is admitted. The first apply must report the
// restart.
func TestRestartsWhileAnotherIsAdmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 30 * time.Second} })
		text := rig.PodText("web", "Always", rig.WithPostStart)
		r.MustApply(text, run.OutcomeCreated)
		r.Exit("app", 1)
		time.Sleep(15 * time.Minute) // long enough to reset the back-off
		_, first := r.ApplyLater(text, rig.Timeout)
		time.Sleep(10 * time.Second)
		second := r.Apply(text)
		if second.Err != nil || second.Outcome != run.OutcomeUnchanged {
			t.Errorf("the second apply: %s, %v", second.Outcome, second.Err)
		}
		if got := <-first; got.Err != nil || got.Outcome != run.OutcomeRestarted || !slices.Equal(got.What, []string{"app"}) {
			t.Errorf("the first apply: %s %q, %v", got.Outcome, got.What, got.Err)
		}
		r.MustDelete()
	})
}

// TestApplyRunsHookOfKilledPodrun covers a podrun process that was killed between StartContainer
// and the end of the hook (k/k#60053, #122803).
func TestApplyRunsHookOfKilledPodrun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: ['true']}}}}]")
		clear := r.Runtime.Fault("ExecSync", critest.Fault{When: critest.Hang})
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("killed")
		time.AfterFunc(time.Minute, func() { cancel(gone) })
		result := r.ApplyWithin(ctx, text, rig.Timeout)
		if !errors.Is(result.Err, gone) {
			t.Fatalf("%v", result.Err)
		}
		clear()
		r.Runtime.ForgetCalls()
		if again := r.Apply(text); again.Err != nil {
			t.Error(again.Err)
		}
		rig.WantChanges(t, r.Runtime, "ExecSync app")
		r.MustApply(text, run.OutcomeUnchanged)
		rig.WantChanges(t, r.Runtime)
		r.MustDelete()
	})
}

// TestHookOfAnAbandonedDelete covers a delete that takes over the pod while an apply runs a
// postStart hook. The delete is interrupted before it has stopped any container. podrun itself
// canceled the hook, so the hook has not failed. The apply must run it again (hooks are delivered
// at least once, https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/) and
// succeed.
func TestHookOfAnAbandonedDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		runs := 0
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { runs++; return &critest.Exec{After: 30 * time.Second} })
		_, first := r.ApplyLater(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: [x]}}}}]"), rig.Timeout)
		time.Sleep(10 * time.Second)
		known := r.Known()
		// The delete owns the pod, while the runtime delays the delete's observation of the pod.
		r.Runtime.Fault("PodSandboxStatus", critest.Fault{When: critest.Slow, Delay: 20 * time.Second, Times: 1})
		ctx, cancel := context.WithCancelCause(t.Context())
		deleted := make(chan error, 1)
		go func() {
			deleted <- rig.ErrorOf(run.DeletePods(ctx, r.Engine(), known, run.DeleteOptions{}))
		}()
		time.Sleep(5 * time.Second)
		cancel(rig.ErrInterrupted)
		if err := <-deleted; !errors.Is(err, rig.ErrInterrupted) {
			t.Errorf("delete: %v", err)
		}
		if result := <-first; result.Err != nil {
			t.Errorf("apply: %v", result.Err)
		}
		r.WantRunning("app")
		if runs != 2 {
			t.Errorf("the hook ran %d times", runs)
		}
		r.MustDelete()
	})
}

// TestFailedHookOfAnInterruptedKill covers a command that cannot kill a container whose
// postStart hook failed: the next pass or the next command must kill the container.
func TestFailedHookOfAnInterruptedKill(t *testing.T) {
	t.Parallel()
	t.Run("a failed stop", func(t *testing.T) {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			s.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 1} })
			clear := s.Runtime.Fault("StopContainer", critest.Fault{When: critest.Before})
			s.Files.Write(rig.File("web"), rig.PodText("web", "Always", rig.WithPostStart))
			time.Sleep(time.Minute)
			clear()
			first, _ := s.Runtime.Container("app")
			time.Sleep(5 * time.Minute)
			for _, c := range s.Runtime.Containers() {
				if c.ID == first.ID && c.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
					t.Errorf("it is still running; events %q", s.Reasons())
				}
			}
		})
	})
	t.Run("a killed podrun", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 1} })
			var marked []string
			e := r.Engine()
			e.Emit = func(ev event.Event) {
				if ev.Reason != event.FailedPostStartHook {
					return
				}
				for _, k := range r.Known() {
					marks, err := filepath.Glob(filepath.Join(r.Layout().Pod(k.ID.UID).HookMarks(), "*"))
					if err != nil {
						t.Error(err)
					}
					for _, path := range marks {
						mark, err := os.ReadFile(path)
						if err != nil {
							t.Error(err)
						}
						marked = append(marked, string(mark))
					}
				}
			}
			results, err := run.ApplyPods(t.Context(), e, rig.Load(t, rig.PodText("web", "Always", rig.WithPostStart)), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
			if err != nil || len(results) != 1 || len(marked) != 1 || !strings.Contains(marked[0], string(lifecycle.HookFailed)) {
				t.Errorf("%v %v; before the kill, the marks are %q", results, err, marked)
			}
			r.MustDelete()
		})
	})
}
