package update

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestApplyRollback covers apply --wait=ready --rollback: after a failure, the pod of before runs, and the error is that of
// the failure.
func TestApplyRollback(t *testing.T) {
	for _, test := range []struct {
		name, container string
		kind            problem.Kind
		replaced        bool
	}{
		{"never ready", "image: registry.example/app:2, " + neverReady, problem.Deadline, true},
		{"failed hook", "image: registry.example/app:2, lifecycle: {postStart: {exec: {command: [sh, -c, exit 3]}}}", problem.Failed, true},
		{"no image", "image: registry.example/absent:1", problem.Image, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Settings.CgroupsPerQOS = false
				pod := func(container string) string {
					return rig.PodText("web", "Always", "terminationGracePeriodSeconds: 5", "containers:", "- {name: web, "+container+"}")
				}
				apply := func(text string) run.Result {
					results, err := run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, text), run.ApplyOptions{Timeout: time.Minute, AllowKubelet: true, Wait: lifecycle.GoalReady, Rollback: true})
					if err != nil {
						t.Fatal(err)
					}
					return results[0]
				}
				if got := apply(pod("image: registry.example/app:1")); got.Err != nil || got.Outcome != run.OutcomeCreated {
					t.Fatalf("%s: %v", got.Outcome, got.Err)
				}
				before, _ := r.Runtime.Container("web")
				got := apply(pod(test.container))
				if got.Outcome != run.OutcomeFailed || rig.KindOf(got.Err) != test.kind {
					t.Errorf("%s: %v, want an error of kind %s", got.Outcome, got.Err, test.kind)
				}
				c, _ := r.Runtime.Container("web")
				if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING || c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:1" {
					t.Errorf("%s is %s; events %q", c.Config.GetImage().GetUserSpecifiedImage(), c.State, r.Reasons())
				}
				if replaced := c.ID != before.ID; replaced != test.replaced {
					t.Errorf("replaced: %t", replaced)
				}
				if got := slices.Contains(r.Reasons(), "RolledBack"); got != test.replaced {
					t.Errorf("events %q", r.Reasons())
				}
				if got := apply(pod("image: registry.example/app:1")); got.Err != nil || got.Outcome != run.OutcomeUnchanged {
					t.Errorf("apply of the earlier definition: %s, %v", got.Outcome, got.Err)
				}
				r.MustDelete()
				r.NothingLeft()
			})
		})
	}
}

// TestApplyRollbackDuringFailures makes calls fail from the failure of the update on: podrun repeats the attempts to restore
// the earlier definition for two minutes, and then says what to do.
func TestApplyRollbackDuringFailures(t *testing.T) {
	for _, method := range []string{"ImageStatus", "ListPodSandbox", "StopPodSandbox", "RunPodSandbox", "StartContainer"} {
		for name, test := range map[string]struct {
			outage   time.Duration
			restored bool
		}{"ends": {45 * time.Second, true}, "stays": {time.Hour, false}} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := rig.New(t)
					r.Settings.CgroupsPerQOS = false
					apply := func(container string) run.Result {
						results, err := run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, rig.PodText("web", "Always", "terminationGracePeriodSeconds: 5", "containers:", "- {name: web, "+container+"}")),
							run.ApplyOptions{Timeout: time.Minute, AllowKubelet: true, Wait: lifecycle.GoalReady, Rollback: true})
						if err != nil {
							t.Fatal(err)
						}
						return results[0]
					}
					if got := apply("image: registry.example/app:1"); got.Err != nil {
						t.Fatal(got.Err)
					}
					failed := make(chan struct{})
					r.Runtime.ScriptExec("web", func([]string) *critest.Exec {
						close(failed)
						return &critest.Exec{ExitCode: 3}
					})
					end := func() {}
					go func() {
						<-failed
						end = r.Runtime.Fault(method, critest.Fault{When: critest.Before})
						time.AfterFunc(test.outage, end)
					}()
					begun := time.Now()
					got := apply("image: registry.example/app:2, lifecycle: {postStart: {exec: {command: [fail]}}}")
					if rig.KindOf(got.Err) != problem.Failed || strings.Contains(got.Err.Error(), "restore its earlier definition") == test.restored {
						t.Error(got.Err)
					}
					if took := time.Since(begun); took > 3*time.Minute || !test.restored && took < 2*time.Minute {
						t.Errorf("it took %s", took)
					}
					end()
					if got := slices.Contains(r.Reasons(), "RolledBack"); got != test.restored {
						t.Errorf("events %q", r.Reasons())
					}
					if got := apply("image: registry.example/app:1"); got.Err != nil || test.restored && got.Outcome != run.OutcomeUnchanged {
						t.Errorf("apply of the earlier definition: %s, %v", got.Outcome, got.Err)
					}
					r.MustDelete()
					r.NothingLeft()
				})
			})
		}
	}
}

// TestApplyRollbackOfReplicas restores all replicas if one fails.
func TestApplyRollbackOfReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Settings.CgroupsPerQOS = false
		apply := func(text string) (errs []error) {
			report, err := run.Apply(t.Context(), r.Engine(), run.ApplyInput{Objects: rig.Load(t, text), Options: run.ApplyOptions{Timeout: time.Minute, AllowKubelet: true, Wait: lifecycle.GoalReady, Rollback: true}})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range report.Pods() {
				errs = append(errs, e.Err)
			}
			return errs
		}
		if errs := apply(replicated("app:1", "")); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
			t.Fatal(errs)
		}
		failProbes(r, "web-1")
		errs := apply(replicated("app:2", ", readinessProbe: {exec: {command: [ok]}, periodSeconds: 2}"))
		if len(errs) != 3 || rig.KindOf(errs[1]) != problem.Deadline || rig.KindOf(errs[0]) != problem.Failed || rig.KindOf(errs[2]) != problem.Failed {
			t.Errorf("errors %q", errs)
		}
		wantImages(r, "app:1")
		r.Delete(run.DeleteOptions{})
		r.NothingLeft()
	})
}
