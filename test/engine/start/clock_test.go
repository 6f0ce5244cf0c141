package start

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestClockSetBack sets the host's clock back by years while a pod runs. The pod's next runs
// then have earlier timestamps than the previous ones, but must still count as the latest.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		text := withInitOf(r, "Always")
		r.Runtime.SetClock(3 * 365 * 24 * time.Hour)
		r.MustApply(text, run.OutcomeCreated)
		r.Runtime.SetClock(0)
		for restarts := range 3 {
			if restarts > 0 {
				r.MustApply(text, run.OutcomeRestarted)
			}
			r.MustApply(text, run.OutcomeUnchanged)
			status := r.Pod("web").Status
			if c := status.ContainerStatuses[0]; int(c.RestartCount) != restarts || c.State.Running == nil {
				t.Errorf("after %d restarts: %d restarts, %+v", restarts, c.RestartCount, c.State)
			}
			r.Exit("app", 3)
		}
		r.MustDelete()
	})
}

// TestClockSetWhileAllAreRestarted sets the clock back or forward around a restart of all
// containers (KEP-5532). This must not change which containers count as stopped by the restart.
func TestClockSetWhileAllAreRestarted(t *testing.T) {
	t.Parallel()
	const years = 3 * 365 * 24 * time.Hour
	for name, clock := range map[string]struct{ created, restarted time.Duration }{"back": {years, 0}, "forward": {0, years}, "not set": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Settings.FeatureGates = map[string]bool{"NodeDeclaredFeatures": true, "ContainerRestartRules": true, "RestartAllContainersOnContainerExits": true}
				text := rig.PodText("web", "Never", "containers:",
					"- {name: app, image: registry.example/app:1, restartPolicy: Never, restartPolicyRules: [{action: RestartAllContainers, exitCodes: {operator: In, values: [42]}}]}",
					"- {name: side, image: registry.example/web:1}")
				r.Runtime.SetClock(clock.created)
				r.MustApply(text, run.OutcomeCreated)
				r.Exit("app", 42)
				r.Runtime.SetClock(clock.restarted)
				r.Runtime.ForgetCalls()
				r.MustApply(text, run.OutcomeRestarted)
				r.Runtime.SetClock(clock.created)
				r.MustApply(text, run.OutcomeUnchanged)
				if calls := r.Runtime.CallNames("StopContainer", "StartContainer"); len(calls) != 3 {
					t.Errorf("calls %q, want a stop and two starts", calls)
				}
				for _, c := range r.Pod("web").Status.ContainerStatuses {
					if c.RestartCount != 1 || c.State.Running == nil {
						t.Errorf("%s: %d restarts, %+v", c.Name, c.RestartCount, c.State)
					}
				}
				r.MustDelete()
			})
		})
	}
}
