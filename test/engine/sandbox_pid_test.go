package engine

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// noSandboxPID makes StartContainer fail as containerd did on a busy host for a container that it had
// created without knowing the PID of the sandbox (containerd/containerd#9160).
var noSandboxPID = critest.Behavior{StartErr: "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to create new parent process: namespace path: lstat /proc/0/ns/ipc: no such file or directory: unknown"}

// TestStartWithoutSandboxPID checks that podrun replaces such a container immediately, regardless of its restart
// policy. As in the kubelet, each replacement counts as a restart.
func TestStartWithoutSandboxPID(t *testing.T) {
	t.Parallel()
	const containers = `containers: [{name: app, image: "registry.example/app:1"}, {name: next, image: "registry.example/app:1"}]`
	again := []string{"RemoveContainer app", "CreateContainer app", "StartContainer app"}
	forever := critest.Behavior{Forever: true}
	for name, tc := range map[string]struct {
		pod      string
		runs     []critest.Behavior
		want     []string // the calls that follow the first start; nil if they are not compared
		restarts uint32
	}{
		"once":                 {one("Always"), []critest.Behavior{noSandboxPID, forever}, again, 1},
		"restart policy Never": {one("Never"), []critest.Behavior{noSandboxPID, noSandboxPID, forever}, append(slices.Clone(again), again...), 2},
		"a hook": {podText("web", "Always", `containers: [{name: app, image: "registry.example/app:1", lifecycle: {postStart: {exec: {command: [hook]}}}}]`),
			[]critest.Behavior{noSandboxPID, forever}, append(slices.Clone(again), "ExecSync app"), 1},
		"an init container": {podText("web", "Always", `initContainers: [{name: app, image: "registry.example/app:1"}]`, `containers: [{name: next, image: "registry.example/app:1"}]`),
			[]critest.Behavior{noSandboxPID, {}}, nil, 1},
		"another container": {podText("web", "Always", containers), []critest.Behavior{noSandboxPID, forever}, nil, 1},
		"in parallel":       {podText("web", "Always", containers), []critest.Behavior{noSandboxPID, forever}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				if name == "in parallel" {
					r.settings.StartOrder = nodeconfig.StartParallel
				}
				r.rt.Script("app", tc.runs...)
				hooks := 0
				r.rt.ScriptExec("app", func([]string) *critest.Exec { hooks++; return &critest.Exec{} })
				r.mustApply(tc.pod, run.OutcomeCreated)
				if tc.want != nil {
					wantChanges(t, r.rt, append([]string{"RunPodSandbox", "CreateContainer app", "StartContainer app"}, tc.want...)...)
				}
				r.mustApply(tc.pod, run.OutcomeUnchanged)
				for _, c := range r.rt.Containers() {
					if want := map[bool]uint32{true: tc.restarts}[c.Config.GetMetadata().GetName() == "app"]; c.Config.GetMetadata().GetAttempt() != want {
						t.Errorf("%s: attempt %d, want %d", c.Config.GetMetadata().GetName(), c.Config.GetMetadata().GetAttempt(), want)
					}
				}
				if hooks > 1 {
					t.Errorf("the hook ran %d times", hooks)
				}
				r.mustDelete()
				r.nothingLeft()
			})
		})
	}
}

// TestDebugWithoutSandboxPID covers an ephemeral container, which podrun starts only if it does not exist.
func TestDebugWithoutSandboxPID(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		runs   []critest.Behavior
		starts int
		fails  bool
	}{
		"once":   {[]critest.Behavior{noSandboxPID, {Forever: true}}, 2, false},
		"always": {[]critest.Behavior{noSandboxPID}, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.mustApply(one("Always"), run.OutcomeCreated)
				r.rt.Script("debugger", tc.runs...)
				r.rt.ForgetCalls()
				e := r.engine()
				debugger := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger", Image: "registry.example/app:1"}}
				report, err := run.Debug(t.Context(), e, run.DebugInput{Namespace: "default", Named: lookup.Ref{Name: "web"}, Container: debugger, Timeout: testTimeout, AllowKubelet: true})
				err = errors.Join(err, report.Err())
				if (err != nil) != tc.fails || err != nil && !strings.Contains(err.Error(), "lstat /proc/0/ns/ipc") {
					t.Errorf("the error is %v", err)
				}
				if n := r.callsTo("StartContainer"); n != tc.starts {
					t.Errorf("%d starts, want %d", n, tc.starts)
				}
				r.mustDelete()
				r.nothingLeft()
			})
		})
	}
}

// TestStartBesideAFailureWithoutSandboxPID checks that podrun reports both errors if another container cannot be
// started, and that the next apply starts the container.
func TestStartBesideAFailureWithoutSandboxPID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("bad", critest.Behavior{StartErr: "failed to create containerd task: a permanent error"})
		r.rt.Script("app", noSandboxPID, critest.Behavior{Forever: true})
		pod := podText("web", "Always", `containers: [{name: bad, image: "registry.example/app:1"}, {name: app, image: "registry.example/app:1"}]`)
		result := r.apply(pod)
		if result.Err == nil || strings.Count(result.Err.Error(), "container bad: start: ") != 1 || strings.Count(result.Err.Error(), "container app: start: ") != 1 {
			t.Errorf("the error is %v", result.Err)
		}
		r.rt.Script("bad", critest.Behavior{Forever: true})
		if result := r.apply(pod); result.Err != nil {
			t.Errorf("the next apply: %v", result.Err)
		}
		if c, _ := r.rt.Container("app"); c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Errorf("the other container does not run: %v", c.State)
		}
		if logs, err := filepath.Glob(r.layout().Logs(result.ID) + "/app/*.log"); err != nil || len(logs) != 1 {
			t.Errorf("logs %q, %v", logs, err)
		}
		r.mustDelete()
		r.nothingLeft()
	})
}

// TestStartAlwaysWithoutSandboxPID checks that podrun reports the error after three attempts, and that the next
// apply starts the container, even with restartPolicy Never.
func TestStartAlwaysWithoutSandboxPID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("app", noSandboxPID)
		result := r.apply(one("Never"))
		var e *problem.Error
		if !errors.As(result.Err, &e) || e.Kind != problem.Runtime || !strings.Contains(e.Error(), "container app: start: ") || !strings.Contains(e.Error(), "lstat /proc/0/ns/ipc") {
			t.Errorf("the error is %v", result.Err)
		}
		if n := r.callsTo("StartContainer"); n != 3 {
			t.Errorf("%d attempts", n)
		}
		r.rt.Script("app", critest.Behavior{Forever: true})
		if result := r.apply(one("Never")); result.Err != nil {
			t.Errorf("the next apply: %v", result.Err)
		}
		r.mustDelete()
		r.nothingLeft()
	})
}

// TestInterruptedWithoutSandboxPID checks that a container that never ran does not count as failed if the command
// is interrupted before the replacement.
func TestInterruptedWithoutSandboxPID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("app", noSandboxPID, critest.Behavior{Forever: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		restore := r.rt.Fault("RemoveContainer", critest.Fault{When: critest.Hang, Match: func(proto.Message) bool { cancel(errCtrlC); return true }})
		if result := r.applyWithin(ctx, one("Never"), testTimeout); !errors.Is(result.Err, errCtrlC) {
			t.Errorf("the error is %v", result.Err)
		}
		restore()
		if result := r.apply(one("Never")); result.Err != nil {
			t.Errorf("the next apply: %v", result.Err)
		}
		r.mustDelete()
		r.nothingLeft()
	})
}
