package engine

import (
	"os"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
)

// TestF8DirectoryOfAHookedPodRemoved checks that after rm -r of a pod's directory, another
// apply creates the missing files, and the pod runs (faults.md, F8).
func TestF8DirectoryOfAHookedPodRemoved(t *testing.T) {
	r := newRig(t)
	r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
	created := r.mustApply(podText("web", "Always", hooked), run.OutcomeCreated)
	for range 2 {
		if err := os.RemoveAll(r.layout().Pod(created.ID.UID)); err != nil {
			t.Fatal(err)
		}
		if result := r.apply(podText("web", "Always", hooked)); result.Err != nil {
			t.Fatal(result.Err)
		}
		r.oneReadySandbox()
	}
	r.mustApply(podText("web", "Always", hooked), run.OutcomeUnchanged)
	r.mustDelete()
}
