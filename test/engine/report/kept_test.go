package report

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
	"github.com/podrun/podrun/test/engine/rig"
)

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
		r := rig.New(t)
		var code atomic.Int32
		code.Store(1)
		r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: code.Load()} })
		begun := time.Now()
		r.MustApply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1, readinessProbe: {exec: {command: [ok]}, periodSeconds: 1, failureThreshold: 1}}]"), run.OutcomeCreated)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			run.Wait(ctx, r.Engine(), r.Known()[0], run.WaitOptions{For: lifecycle.GoalCompleted})
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
				if got, since := readySince(r.OnlyPod()); got != step.want || since.Sub(changed).Abs() > 3*time.Second {
					t.Errorf("Ready is %s since %s, want %s since %s", got, since.Sub(begun), step.want, changed.Sub(begun))
				}
				time.Sleep(10 * time.Second)
			}
		}
		_, since := readySince(r.OnlyPod())
		cancel()
		<-done
		time.Sleep(time.Minute)
		if _, now := readySince(r.OnlyPod()); !now.Equal(since) {
			t.Errorf("after the wait: since %s, want %s", now, since)
		}
		r.MustDelete()
	})
}

// TestEndedPodKeepsItsAddresses checks that a pod that has ended keeps its addresses, as in the kubelet, although
// the runtime forgets those of a stopped sandbox.
func TestEndedPodKeepsItsAddresses(t *testing.T) {
	for name, spec := range map[string]string{"of a network of pods": "", "of the host": "hostNetwork: true\n"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Runtime.Script("app", critest.Behavior{After: time.Second})
				r.MustApply(rig.PodText("web", "OnFailure", spec+"containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
				before := r.OnlyPod().Status
				if result := run.Wait(t.Context(), r.Engine(), r.Known()[0], run.WaitOptions{For: lifecycle.GoalCompleted}); result.Err != nil {
					t.Fatal(result.Err)
				}
				for range 2 {
					after := r.OnlyPod().Status
					if after.Phase != corev1.PodSucceeded || after.PodIP == "" || after.PodIP != before.PodIP || !slices.Equal(after.PodIPs, before.PodIPs) {
						t.Errorf("phase %s, addresses %s %v, want %s %v", after.Phase, after.PodIP, after.PodIPs, before.PodIP, before.PodIPs)
					}
					for _, s := range r.Runtime.Sandboxes() {
						if err := r.Runtime.Client().StopPodSandbox(t.Context(), s.ID); err != nil {
							t.Fatal(err)
						}
					}
				}
				r.MustDelete()
			})
		})
	}
}

// TestEndedPodStaysEnded covers a pod whose records another program removes from the runtime.
func TestEndedPodStaysEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{After: time.Second})
		text := rig.PodText("web", "OnFailure", "containers: [{name: app, image: registry.example/app:1}]")
		r.MustApply(text, run.OutcomeCreated)
		if result := run.Wait(t.Context(), r.Engine(), r.Known()[0], run.WaitOptions{For: lifecycle.GoalCompleted}); result.Err != nil {
			t.Fatal(result.Err)
		}
		for _, c := range r.Runtime.Containers() {
			if err := r.Runtime.Client().RemoveContainer(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
		}
		if phase := r.OnlyPod().Status.Phase; phase != corev1.PodSucceeded {
			t.Errorf("phase %s, want Succeeded", phase)
		}
		r.MustApply(text, run.OutcomeUnchanged)
		if n := len(r.Runtime.Containers()); n != 0 {
			t.Errorf("%d containers were started of a pod that had ended", n)
		}
		if results, err := rig.RestartPods(t.Context(), r.Engine(), r.Known(), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true}); err != nil || results[0].Err != nil {
			t.Errorf("restart: %v, %v", results, err)
		}
		if n := len(r.Runtime.Containers()); n != 1 {
			t.Errorf("%d containers after a restart, want 1", n)
		}
		r.MustDelete()
	})
}

// TestImageBackOffIsShown (conformance C7) runs `get` during an `apply` that cannot pull an
// image.
func TestImageBackOffIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		clear := r.Runtime.Fault("PullImage", critest.Fault{Err: status.Error(codes.Unknown, "dial tcp: connection refused")})
		done := make(chan run.Result)
		go func() {
			done <- r.Apply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/other:1}]"))
		}()
		time.Sleep(5 * time.Second)
		state := r.OnlyPod().Status.ContainerStatuses[0].State.Waiting
		if state == nil || state.Reason != "ImagePullBackOff" || !strings.Contains(state.Message, `Back-off pulling image "registry.example/other:1": ErrImagePull: `) {
			t.Errorf("waiting: %+v", state)
		}
		clear()
		r.Runtime.AddImage(critest.Image{Name: "registry.example/other:1", Entrypoint: []string{"/server"}})
		if result := <-done; result.Err != nil {
			t.Error(result.Err)
		}
		if r.OnlyPod().Status.ContainerStatuses[0].State.Running == nil {
			t.Error("the container does not run")
		}
		r.MustDelete()
	})
}

// TestOOMKillIsReportedOnce checks that podrun reports an OOM kill only once, even if several
// commands observe it.
func TestOOMKillIsReportedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{OOMKilled: true, After: time.Second}, critest.Behavior{Forever: true})
		text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
		r.MustApply(text, run.OutcomeCreated)
		time.Sleep(5 * time.Second)
		r.MustApply(text, run.OutcomeRestarted)
		r.MustApply(text, run.OutcomeUnchanged)
		n := 0
		for _, reason := range r.Reasons() {
			if reason == "OOMKilling app" {
				n++
			}
		}
		if n != 1 || !r.Emitted("OOMKilling app", "Memory cgroup out of memory: container app (exit code 137)") {
			t.Errorf("reported %d times: %q", n, r.Reasons())
		}
		r.MustDelete()
	})
}

// TestExitsOfStoppedAndDeletedPods checks that stop records the exits of the containers, and that
// delete returns them. The pod is terminated, regardless of its restart policy, because none of its
// containers starts again until `podrun start`.
func TestExitsOfStoppedAndDeletedPods(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true})
		r.Runtime.Script("job", critest.Behavior{After: time.Second, ExitCode: 3})
		text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}, {name: job, image: registry.example/db:1, restartPolicy: Never}]")
		r.MustApply(text, run.OutcomeCreated)
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
		stopped := run.StopPods(t.Context(), r.Engine(), r.Known(), run.DeleteOptions{})[0]
		for from, status := range map[string]corev1.PodStatus{"stop": stopped.Status, "get": r.OnlyPod().Status} {
			if stopped.Err != nil || exits(status) != want || status.Phase != corev1.PodFailed {
				t.Errorf("%s: %v, %s, exits %q; want %q", from, stopped.Err, status.Phase, exits(status), want)
			}
		}
		r.MustApply(text, run.OutcomeRestarted)
		deleted := r.Delete(run.DeleteOptions{})[0]
		if deleted.Err != nil || deleted.Outcome != run.OutcomeDeleted || exits(deleted.Status) != want || deleted.Status.Phase != corev1.PodFailed {
			t.Errorf("delete: %v, %s, %s, exits %q; want %q", deleted.Err, deleted.Outcome, deleted.Status.Phase, exits(deleted.Status), want)
		}
		if len(deleted.Containers) != 2 || deleted.Containers[0].ExitCode != 143 {
			t.Errorf("delete: containers %+v", deleted.Containers)
		}
		r.NothingLeft()
	})
}
