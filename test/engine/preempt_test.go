package engine

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
)

// criticalText returns a pod that may preempt others.
func criticalText(name string) string {
	return podText(name, "Always", "priorityClassName: system-node-critical", "containers: [{name: app, image: registry.example/app:1}]")
}

// TestPreempt covers a critical pod on a host with resources for only two pods: it must stop
// only the pod with the lowest priority, within that pod's grace period.
func TestPreempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.settings.MaxPods = 2
		low := podText("low", "Always", "terminationGracePeriodSeconds: 7", "containers: [{name: web, image: registry.example/web:1}]")
		burstable := podText("burstable", "Always", "containers: [{name: db, image: registry.example/db:1, resources: {requests: {cpu: 1m}}}]")
		r.mustApply(low, run.OutcomeCreated)
		r.mustApply(burstable, run.OutcomeCreated)
		wantErr(t, r.apply(one("Always")).Err, problem.Refused, "Node didn't have enough resource: pods")

		r.settings.Preempt = false
		wantErr(t, r.apply(criticalText("critical")).Err, problem.Refused, "Node didn't have enough resource: pods")
		r.settings.Preempt = true

		result := r.mustApply(criticalText("critical"), run.OutcomeCreated)
		if got := result.Status.Phase; got != "Running" {
			t.Errorf("phase %s", got)
		}
		if !r.emitted("Preempting", reconcile.Preempted) || !r.emitted("Killing web", "Stopping container web") || r.emitted("Killing db", "") {
			t.Errorf("events: %q", r.reasons())
		}
		if i, j := slices.Index(r.reasons(), "Preempting"), slices.Index(r.reasons(), "Killing web"); i > j {
			t.Errorf("events in another order: %q", r.reasons())
		}
		if calls := r.rt.Changes(); countOf(calls, "StopContainer web") != 1 || countOf(calls, "StopContainer db") != 0 {
			t.Errorf("changes: %q", calls)
		}
		// The stopped pod waits until resources are free; then it runs again.
		wantErr(t, r.apply(low).Err, problem.Refused, "Node didn't have enough resource: pods")
		r.delete(run.DeleteOptions{}, "critical")
		if result := r.apply(low); result.Err != nil {
			t.Error(result.Err)
		}
		r.mustDelete()
	})
}

// TestPreemptWatched covers a command that waits for a pod that is preempted. It must report
// the preemption, and must not start the pod again.
func TestPreemptWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.settings.MaxPods = 1
		r.rt.Script("setup", critest.Behavior{Forever: true})
		done := make(chan run.Result)
		go func() { done <- r.apply(withInit("Always")) }()
		time.Sleep(time.Minute)
		r.mustApply(criticalText("critical"), run.OutcomeCreated)
		wantErr(t, (<-done).Err, problem.Failed, "pod default/web", "was preempted in order to admit critical pod default/critical")
		ready := 0
		for _, s := range r.rt.Sandboxes() {
			if s.Ready {
				ready++
			}
		}
		if ready != 1 {
			t.Errorf("%d sandboxes are ready", ready)
		}
		r.mustDelete()
	})
}

// TestPreemptPlan checks that the plan lists the pods to preempt, and that `plan` changes nothing.
func TestPreemptPlan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.settings.MaxPods = 1
		r.mustApply(one("Always"), run.OutcomeCreated)
		targets, problems, err := r.engine().Prepare(t.Context(), load(t, criticalText("critical")), run.PrepareOptions{AllowKubelet: true})
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
		if r.emitted("Preempting", "") {
			t.Error("planning preempted a pod")
		}
		r.mustDelete()
	})
}

// TestPriority checks that the priority class in the input determines the priority of the created
// pod.
func TestPriority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		class := "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}"
		text := podText("web", "Always", "priorityClassName: high", "containers: [{name: app, image: registry.example/app:1}]")
		wantErr(t, r.apply(text).Err, problem.Manifest, "spec.priorityClassName: no PriorityClass with name high was found")
		r.mustApply(text+"\n---\n"+class, run.OutcomeCreated)
		r.mustApply(text+"\n---\n"+class, run.OutcomeUnchanged)
		views, err := lookup.Pods(t.Context(), r.engine(), lookup.Selector{Names: []string{"web"}})
		if err != nil || len(views) != 1 || views[0].Object.Spec.Priority == nil || *views[0].Object.Spec.Priority != 1000 {
			t.Errorf("%+v, %v", views, err)
		}
		// The pod is restarted from its checkpoint, which does not contain the class.
		known, err := lookup.Find(t.Context(), r.engine(), lookup.Selector{Names: []string{"web"}})
		if err != nil {
			t.Fatal(err)
		}
		results, err := restartPods(t.Context(), r.engine(), known, run.ApplyOptions{Timeout: testTimeout, AllowKubelet: true})
		if err != nil || results[0].Err != nil {
			t.Error(results, err)
		}
		r.mustDelete()
	})
}
