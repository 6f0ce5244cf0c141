package update

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
)

// journaled returns the reasons of a pod's events: first those that `events` shows, and then
// those that `describe` shows.
func journaled(r *rig.Host) (all, described []string) {
	r.T.Helper()
	events, err := lookup.EventsOf(r.T.Context(), r.Layout(), func(string, identity.Pod) bool { return true })
	if err != nil {
		r.T.Fatal(err)
	}
	for _, e := range events {
		all = append(all, e.Reason)
	}
	if events, err = lookup.Events(r.Engine(), r.Known()[0].ID.UID); err != nil {
		r.T.Fatal(err)
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
	one := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}]")
	force := func(r *rig.Host, text string) ([]run.Result, error) {
		return run.ApplyPods(r.T.Context(), r.Engine(), rig.Load(r.T, text), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true, Force: true})
	}
	created := []string{"Pulled", "Created", "Started"}
	for name, tc := range map[string]struct {
		again   func(r *rig.Host) ([]run.Result, error)
		sameUID bool
	}{
		"apply --force": {func(r *rig.Host) ([]run.Result, error) { return force(r, one) }, true},
		"restart": {func(r *rig.Host) ([]run.Result, error) {
			return rig.RestartPods(r.T.Context(), r.Engine(), r.Known(), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true})
		}, true},
		"replaced": {func(r *rig.Host) ([]run.Result, error) {
			return []run.Result{r.Apply(rig.PodText("web", "Always", "hostname: other", "containers: [{name: app, image: registry.example/app:1}]"))}, nil
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				r.Runtime.Script("app", critest.Behavior{Forever: true, TERMAfter: time.Second})
				r.MustApply(one, run.OutcomeCreated)
				before := r.Known()[0].ID.UID
				var want []string
				for range 2 {
					time.Sleep(time.Minute)
					want, _ = journaled(r)
					r.Forget()
					results, err := tc.again(r)
					if err != nil || results[0].Err != nil {
						t.Fatal(err, results)
					}
					var printed []string
					for _, e := range r.Events() {
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
				all, described := journaled(r)
				if !slices.Contains(all, "Killing") || !slices.Equal(all[len(all)-3:], created) {
					t.Errorf("events %q, want those of before, %q, then Killing and %q", all, want, created)
				}
				for _, reason := range want {
					if !slices.Contains(all, reason) {
						t.Errorf("events %q without the earlier %s", all, reason)
					}
				}
				if same := r.Known()[0].ID.UID == before; same != tc.sameUID {
					t.Fatalf("the same UID: %t", same)
				}
				if got := slices.Contains(described, "Killing"); got != tc.sameUID {
					t.Errorf("described %q", described)
				}
				r.MustDelete()
			})
		})
	}
}
