package engine

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// journaled returns the reasons of a pod's events: first those that `events` shows, and then
// those that `describe` shows.
func (r *rig) journaled() (all, described []string) {
	r.t.Helper()
	events, err := lookup.EventsOf(r.t.Context(), r.layout(), func(string, identity.Pod) bool { return true })
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range events {
		all = append(all, e.Reason)
	}
	if events, err = lookup.Events(r.engine(), r.known()[0].ID.UID); err != nil {
		r.t.Fatal(err)
	}
	for _, e := range events {
		described = append(described, e.Reason)
	}
	return all, described
}

// TestEventsOfAReplacedPod covers `apply --force`, `restart` and a replacement. `events` must show
// the events of the previous pod, followed by those that the command printed (issue 30). `describe`
// must not include the events of a pod with another UID.
func TestEventsOfAReplacedPod(t *testing.T) {
	t.Parallel()
	one := podText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
	force := func(r *rig, text string) ([]run.Result, error) {
		return run.ApplyPods(r.t.Context(), r.engine(), load(r.t, text), run.ApplyOptions{Timeout: testTimeout, AllowKubelet: true, Force: true})
	}
	created := []string{"Pulled", "Created", "Started"}
	for name, tc := range map[string]struct {
		again   func(r *rig) ([]run.Result, error)
		sameUID bool
	}{
		"apply --force": {func(r *rig) ([]run.Result, error) { return force(r, one) }, true},
		"restart": {func(r *rig) ([]run.Result, error) {
			return restartPods(r.t.Context(), r.engine(), r.known(), run.ApplyOptions{Timeout: testTimeout, AllowKubelet: true})
		}, true},
		"replaced": {func(r *rig) ([]run.Result, error) {
			return []run.Result{r.apply(podText("web", "Always", "hostname: other", "containers: [{name: app, image: registry.example/app:1}]"))}, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.rt.Script("app", critest.Behavior{Forever: true, TERMAfter: time.Second})
				r.mustApply(one, run.OutcomeCreated)
				before := r.known()[0].ID.UID
				var want []string
				for range 2 {
					time.Sleep(time.Minute)
					want, _ = r.journaled()
					r.events = nil
					results, err := tc.again(r)
					if err != nil || results[0].Err != nil {
						t.Fatal(err, results)
					}
					var printed []string
					for _, e := range r.events {
						printed = append(printed, e.Reason)
					}
					if name == "replaced" {
						// in the second iteration, the pod is unchanged
						break
					}
					if last := printed[len(printed)-3:]; !slices.Contains(printed, "Killing") || !slices.Equal(last, created) {
						t.Fatalf("printed %q", printed)
					}
				}
				all, described := r.journaled()
				if !slices.Contains(all, "Killing") || !slices.Equal(all[len(all)-3:], created) {
					t.Errorf("events %q, want those of before, %q, then Killing and %q", all, want, created)
				}
				for _, reason := range want {
					if !slices.Contains(all, reason) {
						t.Errorf("events %q without the earlier %s", all, reason)
					}
				}
				if same := r.known()[0].ID.UID == before; same != tc.sameUID {
					t.Fatalf("the same UID: %t", same)
				}
				if got := slices.Contains(described, "Killing"); got != tc.sameUID {
					t.Errorf("described %q", described)
				}
				r.mustDelete()
			})
		})
	}
}
