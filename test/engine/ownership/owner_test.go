package ownership

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// far is the spec of a pod whose image must be pulled.
const far = "containers: [{name: app, image: registry.example/far:1}]"

var farImage = critest.Image{Name: "registry.example/far:1", Entrypoint: []string{"/server"}}

// pulling returns a host on which the pulls of images have a fault, and a pod whose image must be pulled.
func pulling(t *testing.T, fault critest.Fault) (r *rig.Host, text string) {
	r = rig.New(t)
	r.Runtime.AddRemote(farImage)
	r.Runtime.Fault("PullImage", fault)
	return r, rig.PodText("web", "Always", far)
}

// TestF1RollbackOfALoser covers an apply that waits for a pull, and another apply that finds the
// image and overtakes it. Regardless of how the first apply ends, the pod must continue to run.
func TestF1RollbackOfALoser(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel context.CancelCauseFunc){
		"goes on": func(context.CancelCauseFunc) {}, "is interrupted": func(cancel context.CancelCauseFunc) { cancel(rig.ErrInterrupted) },
		"times out": func(context.CancelCauseFunc) { time.Sleep(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, text := pulling(t, critest.Fault{When: critest.Hang, Times: 1})
				cancel, first := r.ApplyLater(text, rig.Timeout)
				time.Sleep(time.Minute)
				r.Runtime.AddImage(farImage)
				if second := r.Apply(text); second.Err != nil {
					t.Fatal(second.Err)
				}
				end(cancel)
				if result := <-first; result.Err != nil && name != "is interrupted" {
					t.Errorf("the first apply: %v", result.Err)
				}
				r.WantRunning("app")
				if n := len(r.Runtime.Containers()); n != 1 {
					t.Errorf("%d containers", n)
				}
				r.MustDelete()
			})
		})
	}
}

// TestF1LoserWhileTheWinnerPulls covers two applies, the first of which ends while the second
// one is still pulling. The first apply must remove nothing, and the second one must start the
// pod.
func TestF1LoserWhileTheWinnerPulls(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{2 * time.Minute, 0} {
		synctest.Test(t, func(t *testing.T) {
			r, text := pulling(t, critest.Fault{When: critest.Slow, Delay: 5 * time.Minute})
			cancel, first := r.ApplyLater(text, timeout)
			time.Sleep(time.Minute)
			_, second := r.ApplyLater(text, rig.Timeout)
			time.Sleep(2 * time.Minute)
			cancel(rig.ErrInterrupted)
			if result := <-first; result.Err == nil {
				t.Error("the first apply did not fail")
			}
			if result := <-second; result.Err != nil {
				t.Errorf("the second apply: %v", result.Err)
			}
			r.WantRunning("app")
			r.MustDelete()
		})
	}
}

// TestF1WinnerEndsFirst covers a command that has taken over a pod from another command, and ends
// before that command. It must keep the objects that it has already created, because the other
// command uses them.
func TestF1WinnerEndsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, text := pulling(t, critest.Fault{When: critest.Slow, Delay: 5 * time.Minute})
		_, first := r.ApplyLater(text, rig.Timeout)
		time.Sleep(time.Minute)
		if second := r.ApplyWithin(t.Context(), text, time.Minute); second.Err == nil {
			t.Error("the second apply did not fail")
		}
		if result := <-first; result.Err != nil {
			t.Errorf("the first apply: %v", result.Err)
		}
		r.WantRunning("app")
		r.MustDelete()
	})
}

// TestLastCommandRemovesAFreshPod covers two commands that are interrupted before a container is started, one
// after the other, or both at the same time: then neither may rely on the other one. Nothing must be left behind.
func TestLastCommandRemovesAFreshPod(t *testing.T) {
	t.Parallel()
	for _, order := range [][][]int{{{0}, {1}}, {{1}, {0}}, {{0, 1}}} {
		synctest.Test(t, func(t *testing.T) {
			r, text := pulling(t, critest.Fault{When: critest.Hang})
			var cancels []context.CancelCauseFunc
			var ends []chan run.Result
			for range 2 {
				cancel, end := r.ApplyLater(text, rig.Timeout)
				cancels, ends = append(cancels, cancel), append(ends, end)
				time.Sleep(time.Minute)
			}
			for _, together := range order {
				for _, i := range together {
					cancels[i](rig.ErrInterrupted)
				}
				for _, i := range together {
					if result := <-ends[i]; !errors.Is(result.Err, rig.ErrInterrupted) {
						t.Error(result.Err)
					}
				}
			}
			r.NothingLeft()
		})
	}
}

// TestC1WaitTakesUpAnUpdate checks that a wait continues with the image of another command's
// update, and never starts the old image again.
func TestC1WaitTakesUpAnUpdate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		text := rig.Web("Always")
		r.MustApply(text, run.OutcomeCreated)
		e := r.Engine()
		known := r.Known()
		ctx, cancel := context.WithCancelCause(t.Context())
		waited := make(chan run.Result, 1)
		go func() { waited <- run.Wait(ctx, e, known[0], run.WaitOptions{For: lifecycle.GoalCompleted}) }()
		time.Sleep(time.Minute)
		r.MustApply(strings.Replace(text, "app:1", "app:2", 1), run.OutcomeUpdated)
		time.Sleep(5 * time.Minute)
		r.WantRunning("app")
		if c, _ := r.Runtime.Container("app"); c.Config.Image.UserSpecifiedImage != "registry.example/app:2" {
			t.Errorf("runs %s", c.Config.Image.UserSpecifiedImage)
		}
		if n := len(r.Runtime.CallNames("StartContainer")); n != 2 {
			t.Errorf("%d containers were started", n)
		}
		cancel(rig.ErrInterrupted)
		<-waited
		r.MustDelete()
	})
}

// TestC1WaitTakesUpADeadline covers an update that adds activeDeadlineSeconds to a pod for which a
// command waits. The deadline must terminate the pod.
func TestC1WaitTakesUpADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		text := rig.Web("Always")
		r.MustApply(text, run.OutcomeCreated)
		e := r.Engine()
		known := r.Known()
		waited := make(chan run.Result, 1)
		go func() {
			waited <- run.Wait(t.Context(), e, known[0], run.WaitOptions{For: lifecycle.GoalCompleted, Timeout: time.Hour})
		}()
		time.Sleep(time.Minute)
		r.MustApply(strings.Replace(text, "spec:\n", "spec:\n  activeDeadlineSeconds: 300\n", 1), run.OutcomeUpdated)
		result := <-waited
		if result.Status.Reason != "DeadlineExceeded" {
			t.Errorf("%v, %s %s", result.Err, result.Status.Phase, result.Status.Reason)
		}
		r.MustDelete()
	})
}

// TestRollbackNeedsTheLock checks that a rollback that cannot take the pod's lock removes
// nothing, and reports how to clean up.
func TestRollbackNeedsTheLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, text := pulling(t, critest.Fault{When: critest.Hang, Times: 1})
		cancel, first := r.ApplyLater(text, rig.Timeout)
		time.Sleep(time.Minute)
		held, err := store.Lock(t.Context(), r.Layout().Locks().Pod(identity.Pod{Namespace: "default", Name: "web"}), "process 1 (podrun stopped) [aa]", nil)
		if err != nil {
			t.Fatal(err)
		}
		before := len(r.Runtime.Calls())
		cancel(rig.ErrInterrupted)
		result := <-first
		if !errors.Is(result.Err, rig.ErrInterrupted) || !strings.Contains(result.Err.Error(), "wait for process 1 (podrun stopped)") {
			t.Errorf("%v", result.Err)
		}
		for _, call := range r.Runtime.Calls()[before:] {
			if !(rig.Step{Method: call.Method}).Reads() {
				t.Errorf("%s was called without the lock", call.Method)
			}
		}
		held.Unlock()
		r.MustDelete()
	})
}

// TestGenerations checks that each start, stop, takeover and delete creates a new generation, and
// that generations are not reused after a delete.
func TestGenerations(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	id := identity.Pod{Namespace: "default", Name: "web"}
	var seen []store.Generation
	look := func(what string) {
		t.Helper()
		rec, err := store.ReadOwner(r.Layout(), id)
		if err != nil || rec == nil {
			t.Fatalf("%s: %v, %v", what, rec, err)
		}
		if len(rec.Token) != 32 || slices.Contains(seen, rec.Generation) {
			t.Errorf("%s: %v of %v", what, rec.Generation, seen)
		}
		if rec.Live(r.Layout()) {
			t.Errorf("%s: it is live after its command has ended", what)
		}
		seen = append(seen, rec.Generation)
	}
	for range 2 {
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		look("apply")
		c, _ := r.Runtime.Container("app")
		if sb := r.Runtime.Sandboxes()[0]; sb.Config.Annotations[identity.AnnotationGeneration] != seen[len(seen)-1].String() ||
			c.Config.Annotations[identity.AnnotationGeneration] != seen[len(seen)-1].String() {
			t.Errorf("provenance: %v, %v", sb.Config.Annotations, c.Config.Annotations)
		}
		r.MustApply(rig.Web("Always"), run.OutcomeUnchanged)
		look("apply again")
		r.MustApply(strings.Replace(rig.Web("Always"), "app:1", "app:2", 1), run.OutcomeUpdated)
		look("update")
		r.MustApply(strings.Replace(rig.Web("Always"), "name: app", "args: [x], name: app", 1), run.OutcomeReplaced)
		look("replace")
		known := r.Known()
		if stopped := run.StopPods(t.Context(), r.Engine(), known, run.DeleteOptions{}); stopped[0].Err != nil {
			t.Fatal(stopped[0].Err)
		}
		look("stop")
		r.MustDelete()
		if rec, err := store.ReadOwner(r.Layout(), id); rec != nil || err != nil {
			t.Errorf("after a delete: %v, %v", rec, err)
		}
	}
}

// TestRestartOfAChangedPod checks that restart and start act on the pod's definition at the time
// when they become the owner, not on the definition that they found.
func TestRestartOfAChangedPod(t *testing.T) {
	t.Parallel()
	text := func(value string) string {
		return rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, env: [{name: V, value: "+value+"}]}]")
	}
	for name, again := range map[string]func(context.Context, *run.Node, []run.Known, run.ApplyOptions) ([]run.Result, error){
		"restart": func(ctx context.Context, e *run.Node, pods []run.Known, o run.ApplyOptions) ([]run.Result, error) {
			return rig.RestartPods(ctx, e, pods, o)
		},
		"start": func(ctx context.Context, e *run.Node, pods []run.Known, o run.ApplyOptions) ([]run.Result, error) {
			return run.StartPods(ctx, e, pods, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.MustApply(text("old"), run.OutcomeCreated)
				known := r.Known()
				r.MustApply(text("new"), run.OutcomeReplaced)
				results, err := again(t.Context(), r.Engine(), known, run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
				if err != nil || results[0].Err != nil {
					t.Fatal(err, results)
				}
				if c, _ := r.Runtime.Container("app"); string(c.Config.GetEnvs()[0].GetValue()) != "new" {
					t.Errorf("it runs with %v", c.Config.GetEnvs()[0])
				}
				r.MustDelete()
			})
		})
	}
}

// TestDeleteOfAReplacedPod covers a pod that is replaced before the delete owns it. A delete by
// name must remove the new pod. A delete by other criteria must remove only the pod that it
// found.
func TestDeleteOfAReplacedPod(t *testing.T) {
	t.Parallel()
	for _, byName := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.MustApply(rig.Web("Always"), run.OutcomeCreated)
			known := r.Known()
			r.MustApply(rig.PodText("web", "Never", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeReplaced)
			results, err := run.DeletePods(t.Context(), r.Engine(), known, run.DeleteOptions{Found: byName})
			if err != nil || results[0].Err != nil {
				t.Fatal(err, results)
			}
			if left := len(r.Known()); (left == 0) != byName {
				t.Errorf("by name %v: %d pods are left", byName, left)
			}
			r.MustDelete()
		})
	}
}

// TestRestartOfPodsOneOfWhichIsDeleted checks that restart still restarts the other pods if another command
// deletes one of them.
func TestRestartOfPodsOneOfWhichIsDeleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		r.MustApply(rig.PodText("gone", "Always", "containers: [{name: side, image: registry.example/web:1}]"), run.OutcomeCreated)
		known := r.Known()
		before, _ := r.Runtime.Container("app")
		r.Delete(run.DeleteOptions{}, "gone")
		results, err := rig.RestartPods(t.Context(), r.Engine(), known, run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
		if err != nil || len(results) != 2 || results[0].Err != nil {
			t.Fatal(err, results)
		}
		rig.WantErr(t, results[1].Err, problem.Failed, "pod default/gone: was deleted by another command")
		if after, _ := r.Runtime.Container("app"); after.ID == before.ID {
			t.Error("the other pod was not restarted")
		}
		r.MustDelete()
	})
}

// TestRestartOfADeletedPod covers a restart and a start that find the pod, and then wait while a
// delete removes it. They must not recreate it: no container of a deleted pod may be started.
func TestRestartOfADeletedPod(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(context.Context, *run.Node, []run.Known, run.ApplyOptions) ([]run.Result, error){
		"restart": func(ctx context.Context, e *run.Node, pods []run.Known, o run.ApplyOptions) ([]run.Result, error) {
			return rig.RestartPods(ctx, e, pods, o)
		},
		"start": func(ctx context.Context, e *run.Node, pods []run.Known, o run.ApplyOptions) ([]run.Result, error) {
			return run.StartPods(ctx, e, pods, o)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.MustApply(rig.Web("Always"), run.OutcomeCreated)
				known := r.Known()
				r.Runtime.Fault("StopPodSandbox", critest.Fault{When: critest.Slow, Delay: time.Minute, Times: 1})
				deleted := make(chan error, 1)
				go func() {
					deleted <- rig.ErrorOf(run.DeletePods(t.Context(), r.Engine(), known, run.DeleteOptions{}))
				}()
				time.Sleep(10 * time.Second)
				results, err := again(t.Context(), r.Engine(), known, run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
				if err == nil {
					err = results[0].Err
				}
				rig.WantErr(t, err, problem.Failed, "pod default/web: was deleted by another command")
				if err := <-deleted; err != nil {
					t.Errorf("delete: %v", err)
				}
				r.NothingLeft()
			})
		})
	}
}

// TestRestartThatFails covers a checkpoint that may be the only copy of the pod's definition.
// If a restart, or a start of a stopped pod, fails or is interrupted, podrun must keep the pod
// without a sandbox, so that the command can be repeated.
func TestRestartThatFails(t *testing.T) {
	t.Parallel()
	again := map[string]func(context.Context, *run.Node, []run.Known, run.ApplyOptions) ([]run.Result, error){
		"restart": func(ctx context.Context, e *run.Node, pods []run.Known, o run.ApplyOptions) ([]run.Result, error) {
			return rig.RestartPods(ctx, e, pods, o)
		},
		"start": func(ctx context.Context, e *run.Node, pods []run.Known, o run.ApplyOptions) ([]run.Result, error) {
			return run.StartPods(ctx, e, pods, o)
		},
	}
	faults := map[string]critest.Fault{
		"sandbox refused":         {Err: errors.New("no network"), Times: 3},
		"no answer for a sandbox": {When: critest.Hang},
	}
	for name, again := range again {
		for fault, f := range faults {
			t.Run(name+" "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rig.New(t)
					r.MustApply(rig.Web("Always"), run.OutcomeCreated)
					known := r.Known()
					if name == "start" {
						if stopped := run.StopPods(t.Context(), r.Engine(), known, run.DeleteOptions{}); stopped[0].Err != nil {
							t.Fatal(stopped[0].Err)
						}
					}
					clear := r.Runtime.Fault("RunPodSandbox", f)
					results, err := again(t.Context(), r.Engine(), known, run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
					if err != nil || results[0].Err == nil {
						t.Fatalf("it did not fail: %v, %v", results, err)
					}
					clear()
					if slices.ContainsFunc(r.Runtime.Sandboxes(), func(s critest.Sandbox) bool { return s.Ready }) {
						t.Error("a sandbox is still ready")
					}
					if known = r.Known(); len(known) != 1 || known[0].Pod == nil {
						t.Fatalf("the pod is lost: %v", known)
					}
					results, err = again(t.Context(), r.Engine(), known, run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
					if err != nil || results[0].Err != nil {
						t.Fatalf("the next one: %v, %v", results, err)
					}
					if c, _ := r.Runtime.Container("app"); c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
						t.Error("the container does not run")
					}
					r.MustDelete()
					r.NothingLeft()
				})
			})
		}
	}
}
