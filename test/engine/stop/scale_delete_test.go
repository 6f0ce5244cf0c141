package stop

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/store"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestDeleteWorkloadKeepsTheRecordOfAReplicaThatRemains checks that the deletion of a workload reports a
// replica whose interrupted removal it cannot complete, and keeps the workload's record, so that the
// next deletion completes the removal.
func TestDeleteWorkloadKeepsTheRecordOfAReplicaThatRemains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Apply("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {podrun.dev/replicas: honour}}\nspec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: registry.example/app:1}]}}}\n")
		id := identity.Pod{Namespace: "default", Name: "web"}
		if _, err := run.Scale(t.Context(), r.Engine(), run.ScaleInput{Kind: "Deployment", ID: id, Replicas: 2, ApplyOptions: run.ApplyOptions{AllowKubelet: true}}); err != nil {
			t.Fatal(err)
		}
		clear := r.Runtime.Fault("RemovePodSandbox", critest.Fault{When: critest.Before})
		if failed := r.Delete(run.DeleteOptions{}, "web-1"); failed[0].Err == nil {
			t.Fatal("the fault had no effect")
		}
		clear()
		replica := identity.Pod{Namespace: "default", Name: "web-1"}
		owner, err := os.ReadFile(r.Layout().Owner(replica))
		if err != nil {
			t.Fatal(err)
		}
		r.Delete(run.DeleteOptions{}, "web-1")
		if err := os.WriteFile(r.Layout().Owner(replica), owner, 0o600); err != nil {
			t.Fatal(err)
		}
		held, err := store.Lock(t.Context(), r.Layout().Locks().Pod(replica), "process 1 (podrun stopped) [aa]", nil)
		if err != nil {
			t.Fatal(err)
		}
		remove := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, ended, err := run.DeleteWorkloads(ctx, r.Engine(), func(store.WorkloadRecord) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			r.Delete(run.DeleteOptions{}, "web")
			return ended()
		}
		if err := remove(10 * time.Second); err == nil || !strings.Contains(err.Error(), "wait for process 1 (podrun stopped)") {
			t.Errorf("the failure to remove web-1: %v", err)
		}
		if w, err := store.ReadWorkload(r.Layout(), id); err != nil || w == nil {
			t.Errorf("the record of the workload: %v, %v", w, err)
		}
		held.Unlock()
		if err := remove(time.Minute); err != nil {
			t.Error(err)
		}
		if w, err := store.ReadWorkload(r.Layout(), id); err != nil || w != nil {
			t.Errorf("the record of the workload: %v, %v", w, err)
		}
		r.NothingLeft()
	})
}

// TestScaleSuperseded changes a new replica while Scale starts it. The change takes effect, and Scale does
// not report the attempt that the other command superseded.
func TestScaleSuperseded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Apply("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {podrun.dev/replicas: honour}}\nspec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: [echo]}}}}]}}}\n")
		// A command does not hold the pod's lock during a hook.
		clear := r.Runtime.Fault("ExecSync", critest.Fault{When: critest.Slow, Delay: 20 * time.Second, Times: 1})
		defer clear()
		type scaled struct {
			results []run.Result
			err     error
		}
		done := make(chan scaled, 1)
		go func() {
			report, err := run.Scale(t.Context(), r.Engine(), run.ScaleInput{Kind: "Deployment", ID: identity.Pod{Namespace: "default", Name: "web"}, Replicas: 2, ApplyOptions: run.ApplyOptions{AllowKubelet: true}})
			done <- scaled{rig.ResultsOf(report), err}
		}()
		time.Sleep(5 * time.Second)
		e := r.Engine()
		replica, err := lookup.Find(t.Context(), e, lookup.Selector{Names: []string{"web-1"}})
		if err != nil {
			t.Fatal(err)
		}
		changed, err := run.ChangePods(t.Context(), e, replica, func(_ identity.Pod, c *manifest.Checkpoint) (*manifest.Objects, error) {
			pod := c.Pod.DeepCopy()
			pod.Spec.Hostname = "other"
			return &manifest.Objects{Pods: []manifest.Pod{{Object: pod, Definition: c.Definition}}}, nil
		}, run.ApplyOptions{AllowKubelet: true})
		if err != nil || len(changed) != 1 || changed[0].Err != nil {
			t.Errorf("change: %v, %+v", err, changed)
		}
		got := <-done
		if got.err != nil {
			t.Error(got.err)
		}
		for _, result := range got.results {
			if result.Err != nil {
				t.Errorf("scale reports %s: %v", result.ID, result.Err)
			}
		}
		if all := r.Known(); len(all) != 2 || all[1].Pod.Spec.Hostname != "other" {
			t.Errorf("the pods are %+v", all)
		}
		r.MustDelete()
	})
}
