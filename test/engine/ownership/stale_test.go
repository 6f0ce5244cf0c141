package ownership

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestStaleListOfSandboxes covers a list of sandboxes that is older than the list of
// containers: delete must still find all sandboxes (the fault matrix, test/fault).
func TestStaleListOfSandboxes(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Runtime.Fault("ListPodSandbox", critest.Fault{When: critest.Stale})
	r.MustApply(rig.Web("Always"), run.OutcomeCreated)
	r.NoError(r.Delete(run.DeleteOptions{}))
	r.NothingLeft()
}

// TestRunNamesTheRuntimeAtItsDeadline covers a runtime that does not respond. Like apply, run
// must name the runtime, and its exit code must be that of a deadline (the fault matrix,
// test/fault).
func TestRunNamesTheRuntimeAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Fault("Version", critest.Fault{When: critest.Hang})
		_, err := rig.RunPods(t.Context(), r.Engine(), rig.Load(t, rig.Web("Never")), run.RunOptions{ApplyOptions: run.ApplyOptions{Timeout: time.Second, AllowKubelet: true}})
		rig.WantErr(t, err, problem.Deadline, "timed out after 1s", "runtime")
	})
}
