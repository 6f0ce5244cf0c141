package engine

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
)

// unstartable contains pods with a container that cannot be started, each with the expected reason
// why the container waits, and a substring of the message.
var unstartable = []struct {
	name, reason, message string
	spec                  []string
	fail                  func(r *rig) (heal func())
}{
	{
		name: "no such key of a file", reason: lifecycle.CreateContainerConfigError, message: "env",
		spec: []string{"volumes: [{name: v, emptyDir: {}}]", "containers:", "- name: app", "  image: registry.example/app:1",
			"  env: [{name: X, valueFrom: {fileKeyRef: {volumeName: v, path: env, key: MISSING}}}]"},
	},
	{
		name: "not created", reason: lifecycle.CreateContainerError, message: "no space",
		spec: []string{"containers: [{name: app, image: registry.example/app:1}]"},
		fail: func(r *rig) func() {
			return r.rt.Fault("CreateContainer", critest.Fault{When: critest.Before, Err: grpcstatus.Error(codes.Unknown, "no space")})
		},
	},
	{
		name: "not started", reason: lifecycle.RunContainerError, message: "no such file",
		spec: []string{"containers: [{name: app, image: registry.example/app:1}]"},
		fail: func(r *rig) func() {
			r.rt.Script("app", critest.Behavior{StartErr: "exec /app: no such file"})
			return func() { r.rt.Script("app", critest.Behavior{Forever: true}) }
		},
	},
	{
		name: "hook failed", reason: lifecycle.PostStartHookError, message: "exited with 4",
		spec: []string{"containers: [{name: app, image: registry.example/app:1, lifecycle: {postStart: {exec: {command: [x]}}}}]"},
		fail: func(r *rig) func() {
			r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{ExitCode: 4} })
			return func() { r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} }) }
		},
	},
}

// waitsFor fails the test unless another process reports that a container waits for the given
// reason.
func (r *rig) waitsFor(reason, message string) {
	r.t.Helper()
	waiting := r.got("web").Status.ContainerStatuses[0].State.Waiting
	if waiting == nil || waiting.Reason != reason || !strings.Contains(waiting.Message, message) {
		r.t.Errorf("waiting %+v, want %s with %q", waiting, reason, message)
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
				r := newRig(t)
				heal := func() {}
				if tc.fail != nil {
					heal = tc.fail(r)
				}
				text := podText("web", "Always", tc.spec...)
				results, err := run.ApplyPods(t.Context(), r.engine(), load(t, text), run.ApplyOptions{Timeout: testTimeout, AllowKubelet: true, KeepOnFailure: true})
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
				r.waitsFor(tc.reason, tc.message)
				// After this time, a back-off has expired.
				time.Sleep(time.Minute)
				r.waitsFor(tc.reason, tc.message)
				if heal(); tc.fail == nil {
					r.mustDelete()
					return
				}
				r.mustApply(text, run.OutcomeRestarted)
				if r.got("web").Status.ContainerStatuses[0].State.Running == nil {
					t.Errorf("started: %+v", r.got("web").Status.ContainerStatuses[0].State)
				}
				if kept := r.got("web"); len(r.known()) != 1 || kept.Status.Phase != corev1.PodRunning {
					t.Errorf("phase %s", kept.Status.Phase)
				}
				r.exit("app", 1)
				if w := r.got("web").Status.ContainerStatuses[0].State.Waiting; w != nil && w.Reason != "CrashLoopBackOff" {
					t.Errorf("an earlier failure is shown again: %+v", w)
				}
				r.mustDelete()
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
			serveTest(t, func(t *testing.T, s *serving) {
				heal := func() {}
				if tc.fail != nil {
					heal = tc.fail(s.rig)
				}
				s.files.write(file("web"), podText("web", "Always", tc.spec...))
				time.Sleep(3 * time.Second)
				s.waitsFor(tc.reason, tc.message)
				if heal(); tc.fail == nil {
					return
				}
				time.Sleep(2 * time.Minute)
				if state := s.got("web").Status.ContainerStatuses[0].State; state.Running == nil {
					t.Errorf("healed: %+v", state)
				}
			})
		})
	}
}
