package start

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
	"github.com/podrun/podrun/test/engine/rig"
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
		"once":                 {rig.Web("Always"), []critest.Behavior{noSandboxPID, forever}, again, 1},
		"restart policy Never": {rig.Web("Never"), []critest.Behavior{noSandboxPID, noSandboxPID, forever}, append(slices.Clone(again), again...), 2},
		"a hook": {rig.PodText("web", "Always", `containers: [{name: app, image: "registry.example/app:1", lifecycle: {postStart: {exec: {command: [hook]}}}}]`),
			[]critest.Behavior{noSandboxPID, forever}, append(slices.Clone(again), "ExecSync app"), 1},
		"an init container": {rig.PodText("web", "Always", `initContainers: [{name: app, image: "registry.example/app:1"}]`, `containers: [{name: next, image: "registry.example/app:1"}]`),
			[]critest.Behavior{noSandboxPID, {}}, nil, 1},
		"another container": {rig.PodText("web", "Always", containers), []critest.Behavior{noSandboxPID, forever}, nil, 1},
		"in parallel":       {rig.PodText("web", "Always", containers), []critest.Behavior{noSandboxPID, forever}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				if name == "in parallel" {
					r.Settings.StartOrder = nodeconfig.StartParallel
				}
				r.Runtime.Script("app", tc.runs...)
				hooks := 0
				r.Runtime.ScriptExec("app", func([]string) *critest.Exec { hooks++; return &critest.Exec{} })
				r.MustApply(tc.pod, run.OutcomeCreated)
				if tc.want != nil {
					rig.WantChanges(t, r.Runtime, append([]string{"RunPodSandbox", "CreateContainer app", "StartContainer app"}, tc.want...)...)
				}
				r.MustApply(tc.pod, run.OutcomeUnchanged)
				for _, c := range r.Runtime.Containers() {
					if want := map[bool]uint32{true: tc.restarts}[c.Config.GetMetadata().GetName() == "app"]; c.Config.GetMetadata().GetAttempt() != want {
						t.Errorf("%s: attempt %d, want %d", c.Config.GetMetadata().GetName(), c.Config.GetMetadata().GetAttempt(), want)
					}
				}
				if hooks > 1 {
					t.Errorf("the hook ran %d times", hooks)
				}
				r.MustDelete()
				r.NothingLeft()
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
				r := rig.New(t)
				r.MustApply(rig.Web("Always"), run.OutcomeCreated)
				r.Runtime.Script("debugger", tc.runs...)
				r.Runtime.ForgetCalls()
				e := r.Engine()
				debugger := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debugger", Image: "registry.example/app:1"}}
				report, err := run.Debug(t.Context(), e, run.DebugInput{Namespace: "default", Named: lookup.Ref{Name: "web"}, Container: debugger, Timeout: rig.Timeout, AllowKubelet: true})
				err = errors.Join(err, report.Err())
				if (err != nil) != tc.fails || err != nil && !strings.Contains(err.Error(), "lstat /proc/0/ns/ipc") {
					t.Errorf("the error is %v", err)
				}
				if n := r.CallsTo("StartContainer"); n != tc.starts {
					t.Errorf("%d starts, want %d", n, tc.starts)
				}
				r.MustDelete()
				r.NothingLeft()
			})
		})
	}
}

// TestStartBesideAFailureWithoutSandboxPID checks that podrun reports both errors if another container cannot be
// started, and that the next apply starts the container.
func TestStartBesideAFailureWithoutSandboxPID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("bad", critest.Behavior{StartErr: "failed to create containerd task: a permanent error"})
		r.Runtime.Script("app", noSandboxPID, critest.Behavior{Forever: true})
		pod := rig.PodText("web", "Always", `containers: [{name: bad, image: "registry.example/app:1"}, {name: app, image: "registry.example/app:1"}]`)
		result := r.Apply(pod)
		if result.Err == nil || strings.Count(result.Err.Error(), "container bad: start: ") != 1 || strings.Count(result.Err.Error(), "container app: start: ") != 1 {
			t.Errorf("the error is %v", result.Err)
		}
		r.Runtime.Script("bad", critest.Behavior{Forever: true})
		if result := r.Apply(pod); result.Err != nil {
			t.Errorf("the next apply: %v", result.Err)
		}
		if c, _ := r.Runtime.Container("app"); c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			t.Errorf("the other container does not run: %v", c.State)
		}
		if logs, err := filepath.Glob(r.Layout().Logs(result.ID) + "/app/*.log"); err != nil || len(logs) != 1 {
			t.Errorf("logs %q, %v", logs, err)
		}
		r.MustDelete()
		r.NothingLeft()
	})
}

// TestStartAlwaysWithoutSandboxPID checks that podrun reports the error after three attempts, and that the next
// apply starts the container, even with restartPolicy Never.
func TestStartAlwaysWithoutSandboxPID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", noSandboxPID)
		result := r.Apply(rig.Web("Never"))
		var e *problem.Error
		if !errors.As(result.Err, &e) || e.Kind != problem.Runtime || !strings.Contains(e.Error(), "container app: start: ") || !strings.Contains(e.Error(), "lstat /proc/0/ns/ipc") {
			t.Errorf("the error is %v", result.Err)
		}
		if n := r.CallsTo("StartContainer"); n != 3 {
			t.Errorf("%d attempts", n)
		}
		r.Runtime.Script("app", critest.Behavior{Forever: true})
		if result := r.Apply(rig.Web("Never")); result.Err != nil {
			t.Errorf("the next apply: %v", result.Err)
		}
		r.MustDelete()
		r.NothingLeft()
	})
}

// TestInterruptedWithoutSandboxPID checks that a container that never ran does not count as failed if the command
// is interrupted before the replacement.
func TestInterruptedWithoutSandboxPID(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("app", noSandboxPID, critest.Behavior{Forever: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		restore := r.Runtime.Fault("RemoveContainer", critest.Fault{When: critest.Hang, Match: func(proto.Message) bool { cancel(rig.ErrInterrupted); return true }})
		if result := r.ApplyWithin(ctx, rig.Web("Never"), rig.Timeout); !errors.Is(result.Err, rig.ErrInterrupted) {
			t.Errorf("the error is %v", result.Err)
		}
		restore()
		if result := r.Apply(rig.Web("Never")); result.Err != nil {
			t.Errorf("the next apply: %v", result.Err)
		}
		r.MustDelete()
		r.NothingLeft()
	})
}
