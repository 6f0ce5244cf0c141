package update

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestRestartAllContainers checks the status of a pod whose containers are restarted because one of them exited
// (KEP-5532), with the reasons and texts of the kubelet (pkg/kubelet/kubelet_pods.go, status/generate.go).
func TestRestartAllContainers(t *testing.T) {
	restarting := func(s corev1.PodStatus) *corev1.PodCondition {
		i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.AllContainersRestarting })
		if i < 0 {
			t.Fatalf("conditions %v", s.Conditions)
		}
		return &s.Conditions[i]
	}
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Settings.FeatureGates = map[string]bool{"NodeDeclaredFeatures": true, "ContainerRestartRules": true, "RestartAllContainersOnContainerExits": true}
		r.Runtime.Script("setup", critest.Behavior{After: time.Second})
		text := rig.PodText("web", "Never", "initContainers: [{name: setup, image: registry.example/setup:1}]", "containers:",
			"- {name: app, image: registry.example/app:1, restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}",
			"- {name: side, image: registry.example/web:1, lifecycle: {preStop: {exec: {command: [hook]}}}}")
		r.MustApply(text, run.OutcomeCreated)
		if c := restarting(r.OnlyPod().Status); c.Status != corev1.ConditionFalse || c.Reason != "" {
			t.Errorf("before: %+v", c)
		}
		for n := range int32(3) {
			time.Sleep(2 * time.Second)
			if err := r.Runtime.Exit("app", 42); err != nil {
				t.Fatal(err)
			}
			s := r.OnlyPod().Status
			if c := restarting(s); c.Status != corev1.ConditionTrue || c.Reason != "RestartAllContainersStarted" || c.Message != "container exited with restart policy rule" || s.Phase != corev1.PodRunning {
				t.Errorf("after exit %d: phase %s, %+v", n+1, s.Phase, c)
			}
			begun := time.Now()
			r.MustApply(text, run.OutcomeRestarted)
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("restart %d was in back-off for %s", n+1, took)
			}
			s = r.OnlyPod().Status
			if i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodInitialized }); s.Conditions[i].Status != corev1.ConditionTrue {
				t.Errorf("after restart %d: %+v", n+1, s.Conditions[i])
			}
			if c := restarting(s); c.Status != corev1.ConditionFalse {
				t.Errorf("after restart %d: %+v", n+1, c)
			}
			for _, c := range s.ContainerStatuses {
				last := c.LastTerminationState.Terminated
				if c.State.Running == nil || c.RestartCount != n+1 || last == nil || last.Reason != "RestartingAllContainers" || last.ExitCode != 137 || last.ContainerID != "" {
					t.Errorf("after restart %d: %s: %d restarts, last %+v, %+v", n+1, c.Name, c.RestartCount, last, c.State)
				}
			}
		}
		if calls := r.Runtime.CallNames("ExecSync"); len(calls) != 0 {
			t.Errorf("preStop hooks ran: %q", calls)
		}
		r.MustDelete()
	})
	// A pod without such a rule does not have the condition.
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{Forever: true})
		r.MustApply(rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
		for _, c := range r.OnlyPod().Status.Conditions {
			if c.Type == corev1.AllContainersRestarting {
				t.Errorf("%+v", c)
			}
		}
		r.MustDelete()
	})
}
