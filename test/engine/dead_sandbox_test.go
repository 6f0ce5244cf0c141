package engine

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/run"
)

// TestDeadSandboxesDoNotPileUp: each time a pod's sandbox exits, a new one is created. Only the
// latest of the exited ones is kept, for the information about the last run (faults.md, F10).
func TestDeadSandboxesDoNotPileUp(t *testing.T) {
	r := newRig(t)
	r.mustApply(one("Always"), run.OutcomeCreated)
	for range 4 {
		for _, sb := range r.rt.Sandboxes() {
			if _, err := r.rt.StopPodSandbox(t.Context(), &runtimeapi.StopPodSandboxRequest{PodSandboxId: sb.ID}); err != nil {
				t.Fatal(err)
			}
		}
		if result := r.apply(one("Always")); result.Err != nil {
			t.Fatal(result.Err)
		}
	}
	if n := len(r.rt.Sandboxes()); n != 2 {
		t.Errorf("%d sandboxes, want the current one and the one before", n)
	}
	r.oneReadySandbox()
	r.mustDelete()
}
