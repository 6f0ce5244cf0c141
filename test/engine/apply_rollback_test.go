package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
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
				r := newRig(t)
				r.settings.CgroupsPerQOS = false
				pod := func(container string) string {
					return podText("web", "Always", "terminationGracePeriodSeconds: 5", "containers:", "- {name: web, "+container+"}")
				}
				apply := func(text string) run.Result {
					results, err := run.ApplyPods(t.Context(), r.engine(), load(t, text), run.ApplyOptions{Timeout: time.Minute, AllowKubelet: true, Wait: lifecycle.GoalReady, Rollback: true})
					if err != nil {
						t.Fatal(err)
					}
					return results[0]
				}
				if got := apply(pod("image: registry.example/app:1")); got.Err != nil || got.Outcome != run.OutcomeCreated {
					t.Fatalf("%s: %v", got.Outcome, got.Err)
				}
				before, _ := r.rt.Container("web")
				got := apply(pod(test.container))
				if got.Outcome != run.OutcomeFailed || kindOf(got.Err) != test.kind {
					t.Errorf("%s: %v, want an error of kind %s", got.Outcome, got.Err, test.kind)
				}
				c, _ := r.rt.Container("web")
				if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING || c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:1" {
					t.Errorf("%s is %s; events %q", c.Config.GetImage().GetUserSpecifiedImage(), c.State, r.reasons())
				}
				if replaced := c.ID != before.ID; replaced != test.replaced {
					t.Errorf("replaced: %t", replaced)
				}
				if got := slices.Contains(r.reasons(), "RolledBack"); got != test.replaced {
					t.Errorf("events %q", r.reasons())
				}
				if got := apply(pod("image: registry.example/app:1")); got.Err != nil || got.Outcome != run.OutcomeUnchanged {
					t.Errorf("apply of the earlier definition: %s, %v", got.Outcome, got.Err)
				}
				r.mustDelete()
				r.nothingLeft()
			})
		})
	}
}

// TestApplyRollbackOfReplicas restores all replicas if one fails.
func TestApplyRollbackOfReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.settings.CgroupsPerQOS = false
		s := &serving{rig: r}
		apply := func(text string) (errs []error) {
			report, err := run.Apply(t.Context(), r.engine(), run.ApplyInput{Objects: load(t, text), Options: run.ApplyOptions{Timeout: time.Minute, AllowKubelet: true, Wait: lifecycle.GoalReady, Rollback: true}})
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
		s.failProbes("web-1")
		errs := apply(replicated("app:2", ", readinessProbe: {exec: {command: [ok]}, periodSeconds: 2}"))
		if len(errs) != 3 || kindOf(errs[1]) != problem.Deadline || kindOf(errs[0]) != problem.Failed || kindOf(errs[2]) != problem.Failed {
			t.Errorf("errors %q", errs)
		}
		s.wantImages("app:1")
		r.delete(run.DeleteOptions{})
		r.nothingLeft()
	})
}
