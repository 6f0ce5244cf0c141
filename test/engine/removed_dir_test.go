package engine

import (
	"os"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
)

// TestF8DirectoryOfAHookedPodRemoved checks that another apply recreates the files, and that the
// pod runs, after rm -r of the pod's directory (faults.md, F8).
func TestF8DirectoryOfAHookedPodRemoved(t *testing.T) {
	t.Parallel()
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
