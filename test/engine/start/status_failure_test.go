package start

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/test/engine/rig"
)

// unstartable contains pods with a container that cannot be started, each with the expected reason
// why the container waits, and a substring of the message.
var unstartable = []struct {
	name, reason, message string
	spec                  []string
	fail                  func(r *rig.Host) (heal func())
}{
	{
		name: "no such key of a file", reason: lifecycle.CreateContainerConfigError, message: "env",
		spec: []string{"volumes: [{name: v, emptyDir: {}}]", "containers:", "- name: app", "  image: registry.example/app:1",
			"  env: [{name: X, valueFrom: {fileKeyRef: {volumeName: v, path: env, key: MISSING}}}]"},
	},
	{
		name: "not created", reason: lifecycle.CreateContainerError, message: "no space",
		spec: []string{"containers: [{name: app, image: registry.example/app:1}]"},
		fail: func(r *rig.Host) func() {
			return r.Runtime.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: grpcstatus.Error(codes.Unknown, "no space")})
		},
	},
	{
		name: "not started", reason: lifecycle.RunContainerError, message: "no such file",
		spec: []string{"containers: [{name: app, image: registry.example/app:1}]"},
		fail: func(r *rig.Host) func() {
			r.Runtime.Script("app", critest.Behavior{StartErr: "exec /app: no such file"})
			return func() { r.Runtime.Script("app", critest.Behavior{Forever: true}) }
		},
	},
	{
		name: "hook failed", reason: lifecycle.PostStartHookError, message: "exited with 4",
		spec: []string{"containers: [{name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: [x]}}}}]"},
		fail: func(r *rig.Host) func() {
			r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 4} })
			return func() { r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} }) }
		},
	},
}

// waitsFor fails the test unless another process reports that a container waits for the given
// reason.
func waitsFor(r *rig.Host, reason, message string) {
	r.T.Helper()
	waiting := r.Pod("web").Status.ContainerStatuses[0].State.Waiting
	if waiting == nil || waiting.Reason != reason || !strings.Contains(waiting.Message, message) {
		r.T.Errorf("waiting %+v, want %s with %q", waiting, reason, message)
	}
}

// TestWhyAContainerIsNotStarted covers a container that could not be created or started. Until
// it is started, the status of its pod must show the reason in every process, as the kubelet's
// status does (issue 30).
func TestWhyAContainerIsNotStarted(t *testing.T) {
	t.Parallel()
	for _, tc := range unstartable {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				heal := func() {}
				if tc.fail != nil {
					heal = tc.fail(r)
				}
				text := rig.PodText("web", "Always", tc.spec...)
				results, err := run.ApplyPods(t.Context(), r.Engine(), rig.Load(t, text), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true, KeepOnFailure: true})
				if err != nil || results[0].Err == nil {
					t.Fatalf("%v, %v; want a failure", err, results)
				}
				e, _ := errors.AsType[*problem.Error](results[0].Err)
				if listed := problem.Of(results[0].Err); e == nil || tc.reason != lifecycle.PostStartHookError && listed[0].Reason != tc.reason {
					t.Errorf("problems %+v, want one with reason %s", listed, tc.reason)
				}
				if w := results[0].Status.ContainerStatuses[0].State.Waiting; w == nil || w.Reason != tc.reason {
					t.Errorf("result: waiting %+v", w)
				}
				waitsFor(r, tc.reason, tc.message)
				// After this time, a back-off has expired.
				time.Sleep(time.Minute)
				waitsFor(r, tc.reason, tc.message)
				if heal(); tc.fail == nil {
					r.MustDelete()
					return
				}
				r.MustApply(text, run.OutcomeRestarted)
				if r.Pod("web").Status.ContainerStatuses[0].State.Running == nil {
					t.Errorf("started: %+v", r.Pod("web").Status.ContainerStatuses[0].State)
				}
				if kept := r.Pod("web"); len(r.Known()) != 1 || kept.Status.Phase != corev1.PodRunning {
					t.Errorf("phase %s", kept.Status.Phase)
				}
				r.Exit("app", 1)
				if w := r.Pod("web").Status.ContainerStatuses[0].State.Waiting; w != nil && w.Reason != "CrashLoopBackOff" {
					t.Errorf("an earlier failure is shown again: %+v", w)
				}
				r.MustDelete()
			})
		})
	}
}

// TestServeWhyAContainerIsNotStarted checks that the status of a supervised pod also shows the reason while serve
// retries the start.
func TestServeWhyAContainerIsNotStarted(t *testing.T) {
	t.Parallel()
	for _, tc := range unstartable {
		t.Run(tc.name, func(t *testing.T) {
			rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
				heal := func() {}
				if tc.fail != nil {
					heal = tc.fail(s.Host)
				}
				s.Files.Write(rig.File("web"), rig.PodText("web", "Always", tc.spec...))
				time.Sleep(3 * time.Second)
				waitsFor(s.Host, tc.reason, tc.message)
				if heal(); tc.fail == nil {
					return
				}
				time.Sleep(2 * time.Minute)
				if state := s.Pod("web").Status.ContainerStatuses[0].State; state.Running == nil {
					t.Errorf("healed: %+v", state)
				}
			})
		})
	}
}
