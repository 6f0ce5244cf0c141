package report

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/access"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestLogsOfExitedContainers checks that Logs returns the time of the exit, also of a previous instance. podrun
// logs must know it, because the runtime may write the last line after it has reported the exit.
func TestLogsOfExitedContainers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", critest.Behavior{After: time.Second, ExitCode: 1}, critest.Behavior{Forever: true})
		r.MustApply(rig.Web("Always"), run.OutcomeCreated)
		time.Sleep(time.Minute)
		finished := func(previous bool) time.Time {
			t.Helper()
			logs, err := access.Logs(t.Context(), r.Engine(), access.LogsRequest{Namespace: "default", Name: "web", Container: "app", Previous: previous})
			if err != nil || len(logs) != 1 {
				t.Fatalf("%v, %v", logs, err)
			}
			return logs[0].FinishedAt
		}
		exit := finished(false)
		if age := time.Since(exit); age < 50*time.Second || age > time.Minute {
			t.Errorf("the container exited %v ago", age)
		}
		r.MustApply(rig.Web("Always"), run.OutcomeRestarted)
		if at := finished(true); !at.Equal(exit) {
			t.Errorf("the previous instance exited at %v, want %v", at, exit)
		}
		if at := finished(false); !at.IsZero() {
			t.Errorf("the running container exited at %v", at)
		}
		r.MustDelete()
	})
}
