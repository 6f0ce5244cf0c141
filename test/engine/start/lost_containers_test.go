package start

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestLostContainersKeepTheRestartCount covers a runtime that has lost its containers, for example
// because of a damaged store. As in the kubelet, the restart count must continue from the names of
// the logs, so that the new container does not write to the log of an earlier one.
func TestLostContainersKeepTheRestartCount(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	text := rig.PodText("web", "Always", "containers: [{name: app, image: registry.example/app:1}, {name: new, image: registry.example/app:1}]")
	result := r.MustApply(text, run.OutcomeCreated)
	logs := filepath.Join(r.Layout().Logs(result.ID), "app")
	lose := func() {
		t.Helper()
		for _, sb := range r.Runtime.Sandboxes() {
			if err := r.Engine().Client.RemovePodSandbox(t.Context(), sb.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	for want := range int32(3) {
		if want > 0 {
			lose()
			if got := containerStatus(t, r.Pod("web").Status, "app"); got.RestartCount != want-1 || got.State.Running != nil {
				t.Errorf("without containers: %+v", got)
			}
			if result := r.Apply(text); result.Err != nil {
				t.Fatal(result.Err)
			}
		}
		if got := containerStatus(t, r.Pod("web").Status, "app"); got.RestartCount != want || got.State.Running == nil {
			t.Errorf("%d restarts, want %d: %+v", got.RestartCount, want, got.State)
		}
		c, ok := r.Runtime.Container("app")
		if n := c.Config.GetMetadata().GetAttempt(); !ok || int32(n) != want {
			t.Errorf("attempt %d, want %d", n, want)
		}
	}
	if names, err := filepath.Glob(logs + "/[012].log"); err != nil || len(names) != 3 {
		t.Errorf("logs %v, %v", names, err)
	}
	// A container without logs starts with 0.
	lose()
	if err := os.RemoveAll(filepath.Join(filepath.Dir(logs), "new")); err != nil {
		t.Fatal(err)
	}
	if result := r.Apply(text); result.Err != nil {
		t.Fatal(result.Err)
	}
	status := r.Pod("web").Status
	if app, new := containerStatus(t, status, "app"), containerStatus(t, status, "new"); app.RestartCount != 3 || new.RestartCount != 0 {
		t.Errorf("%d and %d restarts, want 3 and 0", app.RestartCount, new.RestartCount)
	}
	r.MustDelete()
	// The next pod with the same definition has the same UID. Its count starts with 0, because the logs
	// were removed.
	r.MustApply(text, run.OutcomeCreated)
	if got := containerStatus(t, r.Pod("web").Status, "app"); got.RestartCount != 0 {
		t.Errorf("after a delete: %d restarts", got.RestartCount)
	}
	r.MustDelete()
}
