package ownership

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// slowEnd is a pod whose container takes 20 s to exit.
var slowEnd = rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, lifecycle: {preStop: {exec: {command: [x]}}}}]")

// TestApplyAfterAKilledDelete covers containers that a delete was stopping when it was killed,
// and that may still be exiting. The next apply must not treat them as running, and must not run
// their hooks twice.
func TestApplyAfterAKilledDelete(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"apply", "delete"} {
		t.Run(again, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
			r.MustApply(slowEnd, run.OutcomeCreated)
			before, _ := r.Runtime.Container("app")
			r.Runtime.ForgetCalls()
			r.KillAt(rig.Step{Method: "StopContainer"}, false, "")
			if again == "apply" {
				r.MustApply(slowEnd, run.OutcomeReplaced)
				if after, _ := r.Runtime.Container("app"); after.ID == before.ID || after.State != 1 {
					t.Errorf("%v", after)
				}
				r.OneReadySandbox()
			}
			r.MustDelete()
			if n := len(r.Runtime.CallNames("ExecSync")); again == "delete" && n != 1 {
				t.Errorf("the preStop hook was run %d times", n)
			}
		})
	}
}

// TestDeleteTakesOverFromDelete checks that a second delete with a shorter grace period takes over
// from the first one without waiting.
func TestDeleteTakesOverFromDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 100 * time.Hour} })
		r.MustApply(strings.Replace(slowEnd, "containers:", "terminationGracePeriodSeconds: 3600\n  containers:", 1), run.OutcomeCreated)
		done := make(chan []run.Result, 1)
		go func() { done <- r.Delete(run.DeleteOptions{}) }()
		time.Sleep(time.Minute)
		begun := time.Now()
		grace := time.Second
		r.NoError(r.Delete(run.DeleteOptions{Grace: &grace}))
		if first := <-done; first[0].Err != nil {
			t.Errorf("the first delete: %v", first[0].Err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("took %s", took)
		}
		r.NothingLeft()
	})
}

// TestLoserOfADeleteStopsNothing checks a delete that another delete has replaced as the owner of the
// pod. The first delete must not stop containers during the grace period of the other delete, even if
// it cannot observe the pod again.
func TestLoserOfADeleteStopsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
		r.MustApply(rig.PodText("web", "Always", "terminationGracePeriodSeconds: 3600", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
		first, second := make(chan []run.Result, 1), make(chan []run.Result, 1)
		go func() { first <- r.Delete(run.DeleteOptions{}) }()
		time.Sleep(time.Minute + store.OwnerPoll/2)
		grace := 10 * time.Minute
		go func() { second <- r.Delete(run.DeleteOptions{Grace: &grace}) }()
		// The second delete owns the pod, but the first one has not detected this yet.
		time.Sleep(store.OwnerPoll / 10)
		r.Runtime.Fault("ListPodSandbox", critest.Fault{When: critest.Before, Err: status.Error(codes.DeadlineExceeded, "slow"), Times: 1})
		time.Sleep(time.Minute)
		if c, _ := r.Runtime.Container("app"); c.State != runtimeapi.ContainerState_CONTAINER_RUNNING || len(r.Runtime.CallNames("StopPodSandbox")) != 0 {
			t.Errorf("in the grace period the container is %s", c.State)
		}
		if result := (<-second)[0]; result.Err != nil {
			t.Error(result.Err)
		}
		<-first
		r.NothingLeft()
	})
}

// TestApplyWaitsForADelete covers an apply that starts while a delete is stopping the pod: it must
// wait for the delete, and then recreate the pod.
func TestApplyWaitsForADelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 20 * time.Second} })
		r.MustApply(slowEnd, run.OutcomeCreated)
		done := make(chan []run.Result, 1)
		go func() { done <- r.Delete(run.DeleteOptions{}) }()
		time.Sleep(time.Second)
		r.MustApply(slowEnd, run.OutcomeCreated)
		if deleted := <-done; deleted[0].Err != nil {
			t.Error(deleted[0].Err)
		}
		r.WantRunning("app")
		if !slices.ContainsFunc(r.Warnings(), func(w string) bool { return strings.Contains(w, "waiting for process") }) {
			t.Errorf("apply does not report which command it waits for: %q", r.Warnings())
		}
		r.MustDelete()
	})
}

// TestRunLeavesAnothersPod covers a run whose pod another command has replaced: the run must
// not remove the new pod, even if it has the same UID.
func TestRunLeavesAnothersPod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		text := strings.Replace(rig.PodText("web", "Never", "containers: [{name: app, image: registry.example/app:1}]"), "name: web", "name: web, uid: 11111111-2222-3333-4444-555555555555", 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() {
			results, err := rig.RunPods(ctx, r.Engine(), rig.Load(t, text), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}})
			if err == nil {
				err = results[0].Err
			}
			done <- err
		}()
		time.Sleep(time.Minute)
		results, err := run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, text), run.ApplyOptions{AllowKubelet: true, Force: true})
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
		cancel(rig.ErrInterrupted)
		<-done
		r.WantRunning("app")
		r.MustDelete()
	})
}

// TestDeleteOnAReadOnlyRootDirectory covers a delete that cannot write any file: it must still stop
// the pod and remove it from the runtime, and must report the remaining files.
func TestDeleteOnAReadOnlyRootDirectory(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"read-only", "full"} {
		t.Run(what, func(t *testing.T) {
			r := rig.New(t)
			dir := filepath.Join(t.TempDir(), "disk")
			if err := os.Mkdir(dir, 0o750); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			r.Settings.RootDir = filepath.Join(dir, "root")
			r.MustApply(rig.Web("Always"), run.OutcomeCreated)
			known := r.Known()
			if what == "full" {
				fillDisk(t, dir)
			} else if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			results, err := run.DeletePods(t.Context(), r.Engine(), known, run.DeleteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if left := r.Runtime.Leaked(); len(left) > 0 {
				t.Errorf("left on the runtime: %q", left)
			}
			if what == "full" {
				if results[0].Err != nil {
					t.Error(results[0].Err)
				}
				return
			}
			rig.WantErr(t, results[0].Err, problem.Runtime, "pod default/web", "read-only file system")
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT, ""); err != nil {
				t.Fatal(err)
			}
			r.MustDelete()
		})
	}
}

// fillDisk fills a small file system to its last byte and inode.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
}

// TestFailedHookOfALoser covers a postStart hook that fails after another command has taken
// over the pod. The hook must not run again, and the owner must kill its container.
func TestFailedHookOfALoser(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: time.Minute, ExitCode: 1} })
		text := rig.PodText("web", "Never", rig.WithPostStart)
		_, first := r.ApplyLater(text, rig.Timeout)
		time.Sleep(10 * time.Second)
		_, second := r.ApplyLater(text, rig.Timeout)
		<-first
		<-second
		if n := len(r.Runtime.CallNames("ExecSync")); n != 1 {
			t.Errorf("the hook was run %d times", n)
		}
		if c, _ := r.Runtime.Container("app"); c.State == 1 {
			t.Error("its container continues to run")
		}
		r.MustDelete()
	})
}

// TestStopOvertakenByDelete covers a stop from which a delete takes over: the stop must return when
// the delete does, and no leftovers may remain.
func TestStopOvertakenByDelete(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: time.Hour} })
		r.MustApply(slowEnd, run.OutcomeCreated)
		known := r.Known()
		done := make(chan run.Result, 1)
		go func() { done <- run.StopPods(t.Context(), r.Engine(), known, run.DeleteOptions{})[0] }()
		time.Sleep(10 * time.Second)
		grace := time.Second
		r.Delete(run.DeleteOptions{Grace: &grace})
		if result := <-done; result.Err != nil {
			t.Errorf("stop: %v", result.Err)
		}
		r.NothingLeft()
	})
}

// TestSweepLeavesALiveOwner covers another command that sweeps while a delete is removing a pod
// without a checkpoint. The delete must remove the whole pod.
func TestSweepLeavesALiveOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 20 * time.Second} })
		made := r.MustApply(slowEnd, run.OutcomeCreated)
		if err := os.Remove(r.Layout().Pod(made.ID.UID).Checkpoint()); err != nil {
			t.Fatal(err)
		}
		done := make(chan []run.Result, 1)
		go func() { done <- r.Delete(run.DeleteOptions{}) }()
		time.Sleep(5 * time.Second)
		other := rig.PodText("other", "Always", "containers: [{name: app, image: registry.example/web:1}]")
		for range 3 {
			if results, err := run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, other), run.ApplyOptions{AllowKubelet: true, Force: true}); err != nil || results[0].Err != nil {
				t.Error(err, results)
			}
		}
		if results := <-done; len(results) != 1 || results[0].Err != nil {
			t.Errorf("delete: %v", results)
		}
		for _, sb := range r.Runtime.Sandboxes() {
			if sb.Config.Metadata.Name == "web" {
				t.Error("its sandbox is left")
			}
		}
		r.MustDelete()
	})
}

// TestApplyOvertakenByRun covers an apply whose pod was replaced by a run. It must not wait for the
// run, which ends only when the pod has completed.
func TestApplyOvertakenByRun(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(context.Context, *run.Node, string) ([]run.Result, error){
		"run --replace": func(ctx context.Context, e *run.Node, text string) ([]run.Result, error) {
			return rig.RunPods(ctx, e, rig.Load(t, text), run.RunOptions{Replace: true, ApplyOptions: run.ApplyOptions{AllowKubelet: true}})
		},
		"apply --wait=completed": func(ctx context.Context, e *run.Node, text string) ([]run.Result, error) {
			return run.ApplyPods(ctx, e, rig.Load(t, text), run.ApplyOptions{AllowKubelet: true, Wait: lifecycle.GoalCompleted})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				pod := func(arg string) string {
					return rig.PodText("web", "Never", "terminationGracePeriodSeconds: 8", "containers: [{name: app, image: registry.example/app:1, args: ["+arg+"]}]")
				}
				for range 3 {
					r.Runtime.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
				}
				r.MustApply(pod("v1"), run.OutcomeCreated)
				_, second := r.ApplyLater(pod("v2"), rig.Timeout)
				time.Sleep(6 * time.Second)
				begun := time.Now()
				ctx, cancel := context.WithCancelCause(t.Context())
				third := make(chan error, 1)
				go func() { third <- rig.ErrorOf(over(ctx, r.Engine(), pod("v3"))) }()
				rig.WantErr(t, (<-second).Err, problem.Failed, "was changed by process")
				if took := time.Since(begun); took > 30*time.Second {
					t.Errorf("took %s", took)
				}
				time.Sleep(time.Minute)
				r.WantRunning("app")
				cancel(rig.ErrInterrupted)
				<-third
				r.Delete(run.DeleteOptions{})
				r.NothingLeft()
			})
		})
	}
}
