package stop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// wantDeletion fails the test unless the pod's status in another process shows the given grace
// period and begin of the deletion.
func wantDeletion(r *rig.Host, begun time.Time, grace int64) *corev1.Pod {
	r.T.Helper()
	pod := r.Pod("web")
	if pod.DeletionTimestamp == nil || pod.DeletionGracePeriodSeconds == nil {
		r.T.Fatalf("deletionTimestamp %v, deletionGracePeriodSeconds %v", pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds)
	}
	if end := begun.Add(time.Duration(grace) * time.Second); !pod.DeletionTimestamp.Time.Equal(end) || *pod.DeletionGracePeriodSeconds != grace {
		r.T.Errorf("deletionTimestamp %s, grace period %d s; want %s, %d s", pod.DeletionTimestamp, *pod.DeletionGracePeriodSeconds, end, grace)
	}
	return pod
}

// TestDeletedPodIsTerminating checks that every process shows the deletion of a pod and its grace
// period until podrun has removed the pod, even if the delete was interrupted. The containers'
// states must remain known after the runtime's records have been removed (issue 30).
func TestDeletedPodIsTerminating(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{ExitCode: 1}, critest.Behavior{Forever: true, TERMAfter: 10 * time.Second})
		text := rig.PodText("web", "Always", "terminationGracePeriodSeconds: 20", "containers: [{name: app, image: registry.example/app:1}]")
		r.MustApply(text, run.OutcomeCreated)
		time.Sleep(time.Minute)
		r.MustApply(text, run.OutcomeRestarted)
		if pod := r.Pod("web"); pod.DeletionTimestamp != nil || pod.DeletionGracePeriodSeconds != nil {
			t.Fatalf("a running pod is being deleted: %v", pod.DeletionTimestamp)
		}
		hang := r.Runtime.Fault("RemovePodSandbox", critest.Fault{When: critest.Before, Delay: time.Minute})
		ctx, interrupt := context.WithCancel(t.Context())
		begun, deleted := time.Now(), make(chan run.Result)
		go func() {
			results, _ := run.DeletePods(ctx, r.Engine(), r.Known(), run.DeleteOptions{})
			deleted <- results[0]
		}()
		// The pod takes 10 s to stop; then podrun removes its sandbox.
		for range 15 {
			time.Sleep(time.Second)
			if pod := wantDeletion(r, begun, 20); pod.Status.Phase != corev1.PodRunning {
				t.Errorf("after %s: phase %s", time.Since(begun), pod.Status.Phase)
			}
		}
		interrupt()
		if result := <-deleted; result.Err == nil {
			t.Fatal("the interrupted delete has succeeded")
		}
		hang()
		time.Sleep(time.Hour)
		wantDeletion(r, begun, 20)
		// As in the API, a later delete can shorten the grace period, but never extends it.
		five, hour := 5*time.Second, time.Hour
		hang = r.Runtime.Fault("RemovePodSandbox", critest.Fault{When: critest.Before})
		r.Delete(run.DeleteOptions{Grace: &five})
		wantDeletion(r, begun, 5)
		r.Delete(run.DeleteOptions{Grace: &hour})
		wantDeletion(r, begun, 5)
		hang()
		// This removes all objects in the runtime.
		for _, sb := range r.Runtime.Sandboxes() {
			if err := r.Engine().Client.RemovePodSandbox(t.Context(), sb.ID); err != nil {
				t.Fatal(err)
			}
		}
		pod := wantDeletion(r, begun, 5)
		s := pod.Status.ContainerStatuses[0]
		if pod.Status.Phase != corev1.PodRunning || s.RestartCount != 1 || s.State.Terminated == nil || s.State.Terminated.ExitCode != 143 {
			t.Errorf("without the runtime's records: phase %s, restarts %d, %+v", pod.Status.Phase, s.RestartCount, s.State)
		}
		r.MustApply(text, run.OutcomeReplaced) // this completes the removal
		if pod := r.Pod("web"); pod.DeletionTimestamp != nil || pod.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("applied again: deletionTimestamp %v, restarts %d", pod.DeletionTimestamp, pod.Status.ContainerStatuses[0].RestartCount)
		}
		r.MustDelete()
	})
}

// TestReplacedPodIsTerminating checks the same as TestDeletedPodIsTerminating for a pod that a
// replacement or a restart removes, until the new pod exists.
func TestReplacedPodIsTerminating(t *testing.T) {
	t.Parallel()
	one := rig.PodText("web", "Always", "terminationGracePeriodSeconds: 20", "containers: [{name: app, image: registry.example/app:1}]")
	for name, again := range map[string]func(r *rig.Host) run.Result{
		"restart": func(r *rig.Host) run.Result {
			results, err := rig.RestartPods(r.T.Context(), r.Engine(), r.Known(), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
			if err != nil {
				return run.Result{Err: err}
			}
			return results[0]
		},
		"replace": func(r *rig.Host) run.Result {
			return r.Apply(rig.PodText("web", "Always", "hostname: other", "containers: [{name: app, image: registry.example/app:1}]"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Runtime.Script("app", critest.Behavior{Forever: true, TERMAfter: 10 * time.Second})
				r.MustApply(one, run.OutcomeCreated)
				begun, done := time.Now(), make(chan run.Result)
				go func() { done <- again(r) }()
				time.Sleep(5 * time.Second)
				wantDeletion(r, begun, 20)
				if result := <-done; result.Err != nil {
					t.Fatal(result.Err)
				}
				if pod := r.Pod("web"); pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
					t.Errorf("deletionTimestamp %v, phase %s", pod.DeletionTimestamp, pod.Status.Phase)
				}
				r.MustDelete()
			})
		})
	}
}
