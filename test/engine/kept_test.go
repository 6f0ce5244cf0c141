package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
)

// shown returns the only pod, as `get` in another process shows it.
func (r *rig) shown() *corev1.Pod {
	r.t.Helper()
	views, err := lookup.Pods(r.t.Context(), r.engine(), lookup.Selector{})
	if err != nil || len(views) != 1 {
		r.t.Fatalf("%d pods, %v", len(views), err)
	}
	return views[0].Object
}

func readySince(pod *corev1.Pod) (corev1.ConditionStatus, time.Time) {
	at := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	c := pod.Status.Conditions[at]
	return c.Status, c.LastTransitionTime.Time
}

// TestTransitionTimesAreKept (conformance C2, C3) checks that `get` shows, during and after a
// `wait`, the time since which the pod has been ready.
func TestTransitionTimesAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var code atomic.Int32
		code.Store(1)
		r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: code.Load()} })
		begun := time.Now()
		r.mustApply(podText("web", "Always", "containers: [{name: app, image: registry.example/app:1, readinessProbe: {exec: {command: [ok]}, periodSeconds: 1, failureThreshold: 1}}]"), run.OutcomeCreated)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			run.Wait(ctx, r.engine(), r.known()[0], run.WaitOptions{For: lifecycle.GoalCompleted})
		}()
		for _, step := range []struct {
			code int32
			want corev1.ConditionStatus
		}{{0, corev1.ConditionTrue}, {1, corev1.ConditionFalse}} {
			time.Sleep(20 * time.Second)
			code.Store(step.code)
			changed := time.Now()
			time.Sleep(10 * time.Second)
			for range 2 {
				if got, since := readySince(r.shown()); got != step.want || since.Sub(changed).Abs() > 3*time.Second {
					t.Errorf("Ready is %s since %s, want %s since %s", got, since.Sub(begun), step.want, changed.Sub(begun))
				}
				time.Sleep(10 * time.Second)
			}
		}
		_, since := readySince(r.shown())
		cancel()
		<-done
		time.Sleep(time.Minute)
		if _, now := readySince(r.shown()); !now.Equal(since) {
			t.Errorf("after the wait: since %s, want %s", now, since)
		}
		r.mustDelete()
	})
}

// TestEndedPodKeepsItsAddresses checks that a pod that has ended keeps its addresses, as in the kubelet, although
// the runtime forgets those of a stopped sandbox.
func TestEndedPodKeepsItsAddresses(t *testing.T) {
	for name, spec := range map[string]string{"of a network of pods": "", "of the host": "hostNetwork: true\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.rt.Script("app", critest.Behavior{After: time.Second})
				r.mustApply(podText("web", "OnFailure", spec+"containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
				before := r.shown().Status
				if result := run.Wait(t.Context(), r.engine(), r.known()[0], run.WaitOptions{For: lifecycle.GoalCompleted}); result.Err != nil {
					t.Fatal(result.Err)
				}
				for range 2 {
					after := r.shown().Status
					if after.Phase != corev1.PodSucceeded || after.PodIP == "" || after.PodIP != before.PodIP || !slices.Equal(after.PodIPs, before.PodIPs) {
						t.Errorf("phase %s, addresses %s %v, want %s %v", after.Phase, after.PodIP, after.PodIPs, before.PodIP, before.PodIPs)
					}
					for _, s := range r.rt.Sandboxes() {
						if err := r.rt.Client().StopPodSandbox(t.Context(), s.ID); err != nil {
							t.Fatal(err)
						}
					}
				}
				r.mustDelete()
			})
		})
	}
}

// TestEndedPodStaysEnded covers a pod whose records another program removes from the runtime.
func TestEndedPodStaysEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("app", critest.Behavior{After: time.Second})
		text := podText("web", "OnFailure", "containers: [{name: app, image: registry.example/app:1}]")
		r.mustApply(text, run.OutcomeCreated)
		if result := run.Wait(t.Context(), r.engine(), r.known()[0], run.WaitOptions{For: lifecycle.GoalCompleted}); result.Err != nil {
			t.Fatal(result.Err)
		}
		for _, c := range r.rt.Containers() {
			if err := r.rt.Client().RemoveContainer(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
		}
		if phase := r.shown().Status.Phase; phase != corev1.PodSucceeded {
			t.Errorf("phase %s, want Succeeded", phase)
		}
		r.mustApply(text, run.OutcomeUnchanged)
		if n := len(r.rt.Containers()); n != 0 {
			t.Errorf("%d containers were started of a pod that had ended", n)
		}
		if results, err := restartPods(t.Context(), r.engine(), r.known(), run.ApplyOptions{Timeout: testTimeout, AllowKubelet: true}); err != nil || results[0].Err != nil {
			t.Errorf("restart: %v, %v", results, err)
		}
		if n := len(r.rt.Containers()); n != 1 {
			t.Errorf("%d containers after a restart, want 1", n)
		}
		r.mustDelete()
	})
}

// TestImageBackOffIsShown (conformance C7) runs `get` during an `apply` that cannot pull an
// image.
func TestImageBackOffIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		clear := r.rt.Fault("PullImage", critest.Fault{Err: status.Error(codes.Unknown, "dial tcp: connection refused")})
		done := make(chan run.Result)
		go func() {
			done <- r.apply(podText("web", "Always", "containers: [{name: app, image: registry.example/other:1}]"))
		}()
		time.Sleep(5 * time.Second)
		state := r.shown().Status.ContainerStatuses[0].State.Waiting
		if state == nil || state.Reason != "ImagePullBackOff" || !strings.Contains(state.Message, `Back-off pulling image "registry.example/other:1": ErrImagePull: `) {
			t.Errorf("waiting: %+v", state)
		}
		clear()
		r.rt.AddImage(critest.Image{Name: "registry.example/other:1", Entrypoint: []string{"/server"}})
		if result := <-done; result.Err != nil {
			t.Error(result.Err)
		}
		if r.shown().Status.ContainerStatuses[0].State.Running == nil {
			t.Error("the container does not run")
		}
		r.mustDelete()
	})
}

// TestOOMKillIsReportedOnce checks that podrun reports an OOM kill only once, even if several
// commands observe it.
func TestOOMKillIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("app", critest.Behavior{OOMKilled: true, After: time.Second}, critest.Behavior{Forever: true})
		text := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
		r.mustApply(text, run.OutcomeCreated)
		time.Sleep(5 * time.Second)
		r.mustApply(text, run.OutcomeRestarted)
		r.mustApply(text, run.OutcomeUnchanged)
		n := 0
		for _, reason := range r.reasons() {
			if reason == "OOMKilling app" {
				n++
			}
		}
		if n != 1 || !r.emitted("OOMKilling app", "Memory cgroup out of memory: container app (exit code 137)") {
			t.Errorf("reported %d times: %q", n, r.reasons())
		}
		r.mustDelete()
	})
}

// TestExitsOfStoppedAndDeletedPods checks that stop records the exits of the containers, and that
// delete returns them. The pod is terminated, regardless of its restart policy, because none of its
// containers starts again until `podrun start`.
func TestExitsOfStoppedAndDeletedPods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("app", critest.Behavior{Forever: true})
		r.rt.Script("job", critest.Behavior{After: time.Second, ExitCode: 3})
		text := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1}, {name: job, image: registry.example/db:1, restartPolicy: Never}]")
		r.mustApply(text, run.OutcomeCreated)
		time.Sleep(5 * time.Second)
		want := "app 143, job 3"
		exits := func(status corev1.PodStatus) string {
			var out []string
			for _, c := range status.ContainerStatuses {
				if c.State.Terminated != nil {
					out = append(out, c.Name+" "+fmt.Sprint(c.State.Terminated.ExitCode))
				}
			}
			return strings.Join(out, ", ")
		}
		stopped := run.StopPods(t.Context(), r.engine(), r.known(), run.DeleteOptions{})[0]
		for from, status := range map[string]corev1.PodStatus{"stop": stopped.Status, "get": r.shown().Status} {
			if stopped.Err != nil || exits(status) != want || status.Phase != corev1.PodFailed {
				t.Errorf("%s: %v, %s, exits %q; want %q", from, stopped.Err, status.Phase, exits(status), want)
			}
		}
		r.mustApply(text, run.OutcomeRestarted)
		deleted := r.delete(run.DeleteOptions{})[0]
		if deleted.Err != nil || deleted.Outcome != run.OutcomeDeleted || exits(deleted.Status) != want || deleted.Status.Phase != corev1.PodFailed {
			t.Errorf("delete: %v, %s, %s, exits %q; want %q", deleted.Err, deleted.Outcome, deleted.Status.Phase, exits(deleted.Status), want)
		}
		if len(deleted.Containers) != 2 || deleted.Containers[0].ExitCode != 143 {
			t.Errorf("delete: containers %+v", deleted.Containers)
		}
		r.nothingLeft()
	})
}
