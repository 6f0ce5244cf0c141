package engine

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/store"
)

// TestDeleteWorkloadKeepsTheRecordOfAReplicaThatRemains checks that the deletion of a workload reports a
// replica whose interrupted removal it cannot complete, and keeps the workload's record, so that the
// next deletion completes the removal.
func TestDeleteWorkloadKeepsTheRecordOfAReplicaThatRemains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.apply("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, annotations: {podrun.dev/replicas: honour}}\nspec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: app, image: registry.example/app:1}]}}}\n")
		id := identity.Pod{Namespace: "default", Name: "web"}
		if _, err := r.engine().Scale(t.Context(), "Deployment", id, 2, run.ScaleOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}}); err != nil {
			t.Fatal(err)
		}
		clear := r.rt.Fault("RemovePodSandbox", critest.Fault{When: critest.Before})
		if failed := r.delete(run.DeleteOptions{}, "web-1"); failed[0].Err == nil {
			t.Fatal("the fault had no effect")
		}
		clear()
		replica := identity.Pod{Namespace: "default", Name: "web-1"}
		owner, err := os.ReadFile(r.layout().Owner(replica))
		if err != nil {
			t.Fatal(err)
		}
		r.delete(run.DeleteOptions{}, "web-1")
		if err := os.WriteFile(r.layout().Owner(replica), owner, 0o600); err != nil {
			t.Fatal(err)
		}
		held, err := store.Lock(t.Context(), r.layout().PodLock(replica), "process 1 (podrun stopped) [aa]", nil)
		if err != nil {
			t.Fatal(err)
		}
		remove := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, ended, err := r.engine().DeleteWorkloads(ctx, func(store.WorkloadRecord) bool { return true })
			if err != nil {
				t.Fatal(err)
			}
			r.delete(run.DeleteOptions{}, "web")
			return ended()
		}
		if err := remove(10 * time.Second); err == nil || !strings.Contains(err.Error(), "wait for process 1 (podrun stopped)") {
			t.Errorf("the failure to remove web-1: %v", err)
		}
		if w, err := store.ReadWorkload(r.layout(), id); err != nil || w == nil {
			t.Errorf("the record of the workload: %v, %v", w, err)
		}
		held.Unlock()
		if err := remove(time.Minute); err != nil {
			t.Error(err)
		}
		if w, err := store.ReadWorkload(r.layout(), id); err != nil || w != nil {
			t.Errorf("the record of the workload: %v, %v", w, err)
		}
		r.nothingLeft()
	})
}
