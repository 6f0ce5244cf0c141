package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
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
		r := newRig(t)
		r.settings.FeatureGates = map[string]bool{"NodeDeclaredFeatures": true, "ContainerRestartRules": true, "RestartAllContainersOnContainerExits": true}
		r.rt.Script("setup", critest.Behavior{After: time.Second})
		text := podText("web", "Never", "initContainers: [{name: setup, image: registry.example/setup:1}]", "containers:",
			"- {name: app, image: registry.example/app:1, restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}",
			"- {name: side, image: registry.example/web:1, lifecycle: {preStop: {exec: {command: [hook]}}}}")
		r.mustApply(text, run.OutcomeCreated)
		if c := restarting(r.shown().Status); c.Status != corev1.ConditionFalse || c.Reason != "" {
			t.Errorf("before: %+v", c)
		}
		for n := range int32(3) {
			time.Sleep(2 * time.Second)
			if err := r.rt.Exit("app", 42); err != nil {
				t.Fatal(err)
			}
			s := r.shown().Status
			if c := restarting(s); c.Status != corev1.ConditionTrue || c.Reason != "RestartAllContainersStarted" || c.Message != "container exited with restart policy rule" || s.Phase != corev1.PodRunning {
				t.Errorf("after exit %d: phase %s, %+v", n+1, s.Phase, c)
			}
			begun := time.Now()
			r.mustApply(text, run.OutcomeRestarted)
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("restart %d was in back-off for %s", n+1, took)
			}
			s = r.shown().Status
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
		if calls := r.rt.CallNames("ExecSync"); len(calls) != 0 {
			t.Errorf("preStop hooks ran: %q", calls)
		}
		r.mustDelete()
	})
	// A pod without such a rule does not have the condition.
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("app", critest.Behavior{Forever: true})
		r.mustApply(podText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]"), run.OutcomeCreated)
		for _, c := range r.shown().Status.Conditions {
			if c.Type == corev1.AllContainersRestarting {
				t.Errorf("%+v", c)
			}
		}
		r.mustDelete()
	})
}
