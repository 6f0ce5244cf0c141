package engine

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
)

// errNoSandboxPID is what containerd returned on a busy host for a container that it had created
// without knowing the PID of the sandbox (containerd/containerd#9160).
var errNoSandboxPID = status.Error(codes.Unknown, "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to create new parent process: namespace path: lstat /proc/0/ns/ipc: no such file or directory: unknown")

// TestStartWithoutSandboxPID checks that podrun replaces such a container, also if podrun created it before its turn
// or if it has a postStart hook. podrun gives up after three attempts.
func TestStartWithoutSandboxPID(t *testing.T) {
	again := []string{"RemoveContainer app", "CreateContainer app", "StartContainer app"}
	for name, tc := range map[string]struct {
		pod     string
		failing int
		want    []string
	}{
		"once":                            {one("Always"), 1, again},
		"twice, with restartPolicy Never": {one("Never"), 2, append(slices.Clone(again), again...)},
		"with a hook":                     {podText("web", "Always", `containers: [{name: app, image: "registry.example/app:1", lifecycle: {postStart: {exec: {command: [hook]}}}}]`), 1, append(slices.Clone(again), "ExecSync app")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
				r.rt.Fault("StartContainer", critest.Fault{When: critest.Before, Err: errNoSandboxPID, Times: tc.failing})
				r.mustApply(tc.pod, run.OutcomeCreated)
				wantChanges(t, r.rt, append([]string{"RunPodSandbox", "CreateContainer app", "StartContainer app"}, tc.want...)...)
				r.mustApply(tc.pod, run.OutcomeUnchanged)
				r.mustDelete()
				r.nothingLeft()
			})
		})
	}
	t.Run("created ahead", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			pod := podText("web", "Always", `containers: [{name: app, image: "registry.example/app:1"}, {name: next, image: "registry.example/app:1"}]`)
			r.rt.Fault("StartContainer", critest.Fault{When: critest.Before, Err: errNoSandboxPID, Skip: 1, Times: 1})
			r.mustApply(pod, run.OutcomeCreated)
			r.mustApply(pod, run.OutcomeUnchanged)
			if n := len(r.rt.Containers()); n != 2 {
				t.Errorf("%d containers", n)
			}
			r.mustDelete()
			r.nothingLeft()
		})
	})
	t.Run("always", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Fault("StartContainer", critest.Fault{When: critest.Before, Err: errNoSandboxPID})
			result := r.apply(one("Always"))
			if result.Err == nil || !strings.Contains(result.Err.Error(), "container app: start: ") || !strings.Contains(result.Err.Error(), "lstat /proc/0/ns/ipc") {
				t.Errorf("the error is %v", result.Err)
			}
			wantChanges(t, r.rt, append(append([]string{"RunPodSandbox", "CreateContainer app", "StartContainer app"}, again...), again...)...)
		})
	})
}
