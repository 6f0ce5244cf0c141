package start

import (
	"os"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestF8DirectoryOfAHookedPodRemoved checks that another apply recreates the files, and that the
// pod runs, after rm -r of the pod's directory (faults.md, F8).
func TestF8DirectoryOfAHookedPodRemoved(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
	created := r.MustApply(rig.PodText("web", "Always", rig.WithPostStart), run.OutcomeCreated)
	for range 2 {
		if err := os.RemoveAll(string(r.Layout().Pod(created.ID.UID))); err != nil {
			t.Fatal(err)
		}
		if result := r.Apply(rig.PodText("web", "Always", rig.WithPostStart)); result.Err != nil {
			t.Fatal(result.Err)
		}
		r.OneReadySandbox()
	}
	r.MustApply(rig.PodText("web", "Always", rig.WithPostStart), run.OutcomeUnchanged)
	r.MustDelete()
}
