package start

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/test/engine/rig"
)

// criticalText returns a pod that may preempt others.
func criticalText(name string) string {
	return rig.PodText(name, "Always", "priorityClassName: system-node-critical", "containers: [{name: app, image: registry.example/app:1}]")
}

// TestPreempt covers a critical pod on a host with resources for only two pods: it must stop
// only the pod with the lowest priority, within that pod's grace period.
func TestPreempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Settings.MaxPods = 2
		low := rig.PodText("low", "Always", "terminationGracePeriodSeconds: 7", "containers: [{name: web, image: registry.example/web:1}]")
		burstable := rig.PodText("burstable", "Always", "containers: [{name: db, image: registry.example/db:1, resources: {requests: {cpu: 1m}}}]")
		r.MustApply(low, run.OutcomeCreated)
		r.MustApply(burstable, run.OutcomeCreated)
		rig.WantErr(t, r.Apply(rig.Web("Always")).Err, problem.Refused, "Node didn't have enough resource: pods")

		r.Settings.Preempt = false
		rig.WantErr(t, r.Apply(criticalText("critical")).Err, problem.Refused, "Node didn't have enough resource: pods")
		r.Settings.Preempt = true

		result := r.MustApply(criticalText("critical"), run.OutcomeCreated)
		if got := result.Status.Phase; got != "Running" {
			t.Errorf("phase %s", got)
		}
		if !r.Emitted("Preempting", reconcile.Preempted) || !r.Emitted("Killing web", "Stopping container web") || r.Emitted("Killing db", "") {
			t.Errorf("events: %q", r.Reasons())
		}
		if i, j := slices.Index(r.Reasons(), "Preempting"), slices.Index(r.Reasons(), "Killing web"); i > j {
			t.Errorf("events in another order: %q", r.Reasons())
		}
		if calls := r.Runtime.Changes(); rig.Count(calls, "StopContainer web") != 1 || rig.Count(calls, "StopContainer db") != 0 {
			t.Errorf("changes: %q", calls)
		}
		// The stopped pod waits until resources are free; then it runs again.
		rig.WantErr(t, r.Apply(low).Err, problem.Refused, "Node didn't have enough resource: pods")
		r.Delete(run.DeleteOptions{}, "critical")
		if result := r.Apply(low); result.Err != nil {
			t.Error(result.Err)
		}
		r.MustDelete()
	})
}

// TestPreemptWatched covers a command that waits for a pod that is preempted. It must report
// the preemption, and must not start the pod again.
func TestPreemptWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Settings.MaxPods = 1
		r.Runtime.Script("setup", critest.Behavior{Forever: true})
		done := make(chan run.Result)
		go func() { done <- r.Apply(rig.WebWithInit("Always")) }()
		time.Sleep(time.Minute)
		r.MustApply(criticalText("critical"), run.OutcomeCreated)
		rig.WantErr(t, (<-done).Err, problem.Failed, "pod default/web", "was preempted in order to admit critical pod default/critical")
		ready := 0
		for _, s := range r.Runtime.Sandboxes() {
			if s.Ready {
				ready++
			}
		}
		if ready != 1 {
			t.Errorf("%d sandboxes are ready", ready)
		}
		r.MustDelete()
	})
}

// TestPreemptPlan checks that the plan lists the pods to preempt, and that `plan` changes nothing.
func TestPreemptPlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Settings.MaxPods = 1
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		targets, problems, err := r.Engine().Prepare(t.Context(), rig.Load(t, criticalText("critical")), run.PrepareOptions{AllowKubelet: true})
		if err != nil || len(problems.Errors()) > 0 {
			t.Fatal(problems, err)
		}
		view, err := targets[0].View()
		if err != nil {
			t.Fatal(err)
		}
		if len(view.Preempts) != 1 || view.Preempts[0].Name != "web" {
			t.Errorf("preempts %+v", view.Preempts)
		}
		if r.Emitted("Preempting", "") {
			t.Error("planning preempted a pod")
		}
		r.MustDelete()
	})
}

// TestPriority checks that the priority class in the input determines the priority of the created
// pod.
func TestPriority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		class := "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}"
		text := rig.PodText("web", "Always", "priorityClassName: high", "containers: [{name: app, image: registry.example/app:1}]")
		rig.WantErr(t, r.Apply(text).Err, problem.Manifest, "spec.priorityClassName: no PriorityClass with name high was found")
		r.MustApply(text+"\n---\n"+class, run.OutcomeCreated)
		r.MustApply(text+"\n---\n"+class, run.OutcomeUnchanged)
		views, err := lookup.Pods(t.Context(), r.Engine(), lookup.Selector{Names: []string{"web"}})
		if err != nil || len(views) != 1 || views[0].Object.Spec.Priority == nil || *views[0].Object.Spec.Priority != 1000 {
			t.Errorf("%+v, %v", views, err)
		}
		// The pod is restarted from its checkpoint, which does not contain the class.
		known, err := lookup.Find(t.Context(), r.Engine(), lookup.Selector{Names: []string{"web"}})
		if err != nil {
			t.Fatal(err)
		}
		results, err := rig.RestartPods(t.Context(), r.Engine(), known, run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
		if err != nil || results[0].Err != nil {
			t.Error(results, err)
		}
		r.MustDelete()
	})
}
