package start

import (
	"slices"
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
)

// TestOldRunsArePruned checks that podrun keeps the last run that exited, for its log and its last
// state, and removes containers that were never started.
func TestOldRunsArePruned(t *testing.T) {
	s := New(lease.New(pod.New(&node.Node{Client: critest.ForTest(t).Client()}, &prepare.Plan{}), nil), nil, nil, nil, nil)
	base := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for i, state := range []lifecycle.State{lifecycle.Created, lifecycle.Exited, lifecycle.Created, lifecycle.Exited, lifecycle.Exited, lifecycle.Running} {
		s.pod.Observed.Containers = append(s.pod.Observed.Containers, lifecycle.Container{ID: string(rune('a' + i)), Name: "app", State: state, CreatedAt: base.Add(-time.Duration(i) * time.Minute)})
	}
	s.pod.Observed.Containers = append(s.pod.Observed.Containers, lifecycle.Container{ID: "x", Name: "other", State: lifecycle.Exited})
	if err := s.removeOld(t.Context(), "app"); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, c := range s.pod.Observed.Containers {
		kept = append(kept, c.Name+" "+c.ID)
	}
	if want := []string{"app b", "app f", "other x"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
}
