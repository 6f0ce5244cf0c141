package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// TestStaleListOfSandboxes covers a list of sandboxes that is older than the list of
// containers: delete must still find all sandboxes (the fault matrix, test/fault).
func TestStaleListOfSandboxes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rt.Fault("ListPodSandbox", critest.Fault{When: critest.Stale})
	r.mustApply(one("Always"), run.OutcomeCreated)
	r.noError(r.delete(run.DeleteOptions{}))
	r.nothingLeft()
}

// TestRunNamesTheRuntimeAtItsDeadline covers a runtime that does not respond. Like apply, run
// must name the runtime, and its exit code must be that of a deadline (the fault matrix,
// test/fault).
func TestRunNamesTheRuntimeAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Fault("Version", critest.Fault{When: critest.Hang})
		_, err := runPods(t.Context(), r.engine(), load(t, one("Never")), run.RunOptions{ApplyOptions: run.ApplyOptions{Timeout: time.Second, AllowKubelet: true}})
		wantErr(t, err, problem.Deadline, "timed out after 1s", "runtime")
	})
}
