package state

import (
	"strings"
	"testing"

	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestAPIReportsCorruptPods covers a pod that serve cannot supervise, because its checkpoint is
// corrupt. Until the pod is deleted, the API must report the node as not ready.
func TestAPIReportsCorruptPods(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	pod := r.MustApply(rig.ServedPod("web"), run.OutcomeCreated)
	spoil(t, r.Layout().Pod(pod.ID.UID).Checkpoint(), "cut short")
	get := rig.API(t, r, serve.Options{Dirs: []string{t.TempDir()}})
	const problem = "pod default/web: its checkpoint: "
	rig.Eventually(t, "not ready", func() bool {
		code, text := get("/readyz")
		return code == 503 && strings.Contains(text, "source podrun apply failed: "+problem)
	})
	if code, text := get("/healthz"); code != 200 {
		t.Errorf("healthz: %d %s", code, text)
	}
	if _, text := get("/sources"); !strings.Contains(text, problem) {
		t.Errorf("sources: %s", text)
	}
	goneByDelete(r, "web")
	rig.Eventually(t, "ready", func() bool {
		code, _ := get("/readyz")
		return code == 200
	})
}
