package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve/supervisor"
)

// notice is how long a supervisor may take to detect an exit in the fake runtime. Its containers
// have no processes, so the supervisor lists them every second.
const notice = 1100 * time.Millisecond

// gaps returns the times between the starts of a container.
func gaps(starts []time.Time) []time.Duration {
	var out []time.Duration
	for i := 1; i < len(starts); i++ {
		out = append(out, starts[i].Sub(starts[i-1]))
	}
	return out
}

// wantGaps checks the times between starts. Each must be at least as long as expected, and at
// most notice longer.
func wantGaps(t *testing.T, got []time.Duration, want ...time.Duration) {
	t.Helper()
	for i, w := range want {
		if i >= len(got) {
			t.Fatalf("%d gaps, want %d: %v", len(got), len(want), got)
		}
		if got[i] < w || got[i] > w+notice {
			t.Errorf("gap %d: %s, want %s; all: %v", i, got[i], w, got)
		}
	}
}

// TestServeCrashLoop checks the back-off: none before the first restart, then 10 s, doubling up to
// 5 min. A run of 10 min resets the back-off; a restart of serve does not.
func TestServeCrashLoop(t *testing.T) {
	t.Parallel()
	for _, restarts := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarts of serve: %v", restarts), func(t *testing.T) {
			serveTest(t, func(t *testing.T, s *serving) {
				crash := critest.Behavior{ExitCode: 1, After: time.Second}
				s.rt.Script("web", crash, crash, crash, crash, crash, crash, crash, crash, critest.Behavior{After: 11 * time.Minute, ExitCode: 1}, crash, crash,
					critest.Behavior{Forever: true})
				s.files.write(file("web"), servedPod("web"))
				for range 300 {
					time.Sleep(10 * time.Second)
					if restarts {
						s.restart()
					}
				}
				run := time.Second
				wantGaps(t, gaps(s.starts("web")), run, run+10*time.Second, run+20*time.Second, run+40*time.Second, run+80*time.Second, run+160*time.Second,
					run+300*time.Second, run+300*time.Second, 11*time.Minute, run+10*time.Second, run+20*time.Second)
				s.running("web")
			})
		})
	}
}

// TestServePolicies checks that serve restarts containers according to the policy, and that
// containers that have terminated permanently do not run again.
func TestServePolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy string
		code   int32
		starts int // number of starts in an hour, for a container whose runs take a minute
	}{{"Never", 0, 1}, {"Never", 1, 1}, {"OnFailure", 0, 1}, {"OnFailure", 1, 14}, {"Always", 0, 14}, {"Always", 1, 14}} {
		t.Run(fmt.Sprintf("%s, code %d", tc.policy, tc.code), func(t *testing.T) {
			serveTest(t, func(t *testing.T, s *serving) {
				s.rt.Script("web", critest.Behavior{After: time.Minute, ExitCode: tc.code})
				s.files.write(file("web"), podText("web", tc.policy, "containers: [{name: web, image: registry.example/app:1}]"))
				time.Sleep(30 * time.Minute)
				s.restart()
				time.Sleep(30 * time.Minute)
				if n := len(s.starts("web")); n < tc.starts-1 || n > tc.starts+1 || tc.starts == 1 && n != 1 {
					t.Errorf("%d starts, want %d", n, tc.starts)
				}
				if tc.starts > 1 {
					return
				}
				// This simulates a reboot of the host.
				s.rt.Restart()
				s.restart()
				time.Sleep(10 * time.Minute)
				s.wantStarts("web", 1)
				if sum := s.super.Summary().String(); sum != "1 pods: 1 ended" {
					t.Error(sum)
				}
			})
		})
	}
}

// TestServeBoot checks that after a boot, serve recreates every pod, except those that have
// terminated or were stopped.
func TestServeBoot(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		s.files.write(file("db"), servedPod("db"))
		s.noError(s.applyAll(t.Context(), servedPod("applied")))
		time.Sleep(time.Minute)
		web := s.running("web")
		s.noError(run.StopPods(t.Context(), s.engine(), s.pod("db"), run.DeleteOptions{}))
		s.end()
		s.rt.Restart()
		s.start()
		time.Sleep(10 * time.Second)
		c := s.running("web")
		if c.ID == web.ID || c.Config.GetMetadata().GetAttempt() != 1 || c.SandboxID == web.SandboxID {
			t.Errorf("attempt %d", c.Config.GetMetadata().GetAttempt())
		}
		s.running("applied")
		time.Sleep(time.Hour)
		s.wantStarts("db", 1)
		s.wantStarts("web", 2)
		s.noError(run.StartPods(t.Context(), s.engine(), s.pod("db"), run.ApplyOptions{AllowKubelet: true}))
		time.Sleep(time.Minute)
		s.running("db")
	})
}

// TestServeProbes checks the effect of each kind of probe.
func TestServeProbes(t *testing.T) {
	t.Parallel()
	probed := func(kind string) string {
		return podText("web", "Always", "terminationGracePeriodSeconds: 1", "containers:",
			"- {name: web, image: registry.example/app:1, "+kind+": {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 3}}")
	}
	answer := func(s *serving, code int32) {
		s.rt.ScriptExec("web", func([]string) *critest.Exec { return &critest.Exec{ExitCode: code} })
	}
	t.Run("liveness", func(t *testing.T) {
		serveTest(t, func(t *testing.T, s *serving) {
			answer(s, 0)
			s.files.write(file("web"), probed("livenessProbe"))
			time.Sleep(time.Hour)
			s.wantStarts("web", 1)
			answer(s, 1)
			time.Sleep(17 * time.Second)
			s.wantStarts("web", 2)
			if !s.emitted("Killing web", "failed liveness probe, will be restarted") {
				t.Errorf("events %q", s.reasons())
			}
			// After a long run, the first restart has no back-off, and the second one has 10 s. The
			// first probe of a container begins 1 s after its start.
			time.Sleep(15 * time.Second)
			answer(s, 0)
			time.Sleep(time.Hour)
			s.wantStarts("web", 3)
			wantGaps(t, gaps(s.starts("web"))[1:], 11*time.Second+10*time.Second)
		})
	})
	t.Run("startup", func(t *testing.T) {
		serveTest(t, func(t *testing.T, s *serving) {
			answer(s, 1)
			s.files.write(file("web"), probed("startupProbe"))
			time.Sleep(17 * time.Second)
			s.wantStarts("web", 2)
			answer(s, 0)
			time.Sleep(10 * time.Second)
			// After a success, the startup probe does not run again.
			answer(s, 1)
			time.Sleep(time.Hour)
			s.wantStarts("web", 2)
			s.restart()
			time.Sleep(time.Hour)
			s.wantStarts("web", 2)
		})
	})
	t.Run("readiness", func(t *testing.T) {
		serveTest(t, func(t *testing.T, s *serving) {
			answer(s, 1)
			s.files.write(file("web"), probed("readinessProbe"))
			ready := func() string { return s.condition("web", "Ready") }
			time.Sleep(time.Minute)
			if ready() != "False" {
				t.Errorf("ready: %s", ready())
			}
			answer(s, 0)
			time.Sleep(7 * time.Second)
			if ready() != "True" {
				t.Errorf("ready: %s", ready())
			}
			// A restart of serve keeps the result.
			s.restart()
			if ready() != "True" {
				t.Errorf("after a restart of serve ready: %s", ready())
			}
			answer(s, 1)
			time.Sleep(17 * time.Second)
			if ready() != "False" {
				t.Errorf("ready: %s", ready())
			}
			s.wantStarts("web", 1)
		})
	})
}

// condition returns the status of a pod's condition, as another process shows it.
func (s *serving) condition(pod, kind string) string {
	s.t.Helper()
	for _, c := range s.status(pod).Conditions {
		if string(c.Type) == kind {
			return string(c.Status)
		}
	}
	return ""
}

// TestServeHooks checks that postStart runs at each start, and preStop at each stop.
func TestServeHooks(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		var ran []string
		s.rt.ScriptExec("web", func(cmd []string) *critest.Exec {
			ran = append(ran, cmd[0])
			return &critest.Exec{After: time.Second}
		})
		s.rt.Script("web", critest.Behavior{After: time.Minute, ExitCode: 1}, critest.Behavior{Forever: true})
		s.files.write(file("web"), podText("web", "Always", "containers:", "- name: web", "  image: registry.example/app:1",
			"  lifecycle: {postStart: {exec: {command: [hello]}}, preStop: {exec: {command: [bye]}}}"))
		time.Sleep(5 * time.Minute)
		s.restart()
		time.Sleep(5 * time.Minute)
		s.files.remove(file("web"))
		time.Sleep(10 * time.Second)
		s.absent("web")
		if !slices.Equal(ran, []string{"hello", "hello", "bye"}) {
			t.Errorf("hooks %q", ran)
		}
	})
}

// TestServeDeadline checks that activeDeadlineSeconds count from the pod's start, regardless of
// restarts of serve, and that pods that exceeded them remain terminated.
func TestServeDeadline(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), podText("web", "Always", "activeDeadlineSeconds: 600", "terminationGracePeriodSeconds: 1",
			"containers: [{name: web, image: registry.example/app:1}]"))
		time.Sleep(5 * time.Minute)
		s.restart()
		time.Sleep(5*time.Minute - 5*time.Second)
		s.running("web")
		time.Sleep(10 * time.Second)
		if c, _ := s.rt.Container("web"); c.FinishedAt.IsZero() {
			t.Error("the pod continues to run")
		}
		if !s.emitted("DeadlineExceeded", "Pod was active on the node longer than the specified deadline") {
			t.Errorf("events %q", s.reasons())
		}
		s.restart()
		time.Sleep(time.Hour)
		s.wantStarts("web", 1)
		if n := countOf(s.reasons(), "DeadlineExceeded"); n != 1 {
			t.Errorf("podrun reported the deadline %d times: %q", n, s.reasons())
		}
	})
}

// TestServeSidecars checks that sidecars start in order, are restarted with their own back-off,
// and stop with the pod.
func TestServeSidecars(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.rt.Script("setup", critest.Behavior{After: 10 * time.Second})
		s.rt.Script("side", critest.Behavior{After: time.Minute, ExitCode: 1}, critest.Behavior{After: time.Minute}, critest.Behavior{Forever: true})
		s.rt.Script("web", critest.Behavior{After: 10 * time.Minute})
		s.files.write(file("web"), podText("web", "Never", "terminationGracePeriodSeconds: 5",
			"initContainers:", "- {name: side, image: registry.example/app:1, restartPolicy: Always}", "- {name: setup, image: registry.example/setup:1}",
			"containers: [{name: web, image: registry.example/app:1}]"))
		time.Sleep(8 * time.Minute)
		s.running("side")
		s.running("web")
		wantGaps(t, gaps(s.starts("side")), time.Minute, time.Minute+10*time.Second)
		wantGaps(t, gaps(append(s.starts("side")[:1], append(s.starts("setup"), s.starts("web")...)...)), 0, 10*time.Second)
		time.Sleep(time.Hour)
		if c, _ := s.rt.Container("side"); c.FinishedAt.IsZero() {
			t.Error("the sidecar outlived the pod")
		}
		s.wantStarts("web", 1)
		s.wantStarts("setup", 1)
		s.wantStarts("side", 3)
	})
}

// TestServeSandboxDies checks that the pod gets a new sandbox, in which its init containers run
// again.
func TestServeSandboxDies(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.rt.Script("setup", critest.Behavior{})
		s.files.write(file("web"), podText("web", "Always", "initContainers: [{name: setup, image: registry.example/setup:1}]",
			"containers: [{name: web, image: registry.example/app:1}]"))
		s.files.write(file("db"), servedPod("db"))
		time.Sleep(20 * time.Minute)
		web, db := s.running("web"), s.running("db")
		if err := s.rt.Client().StopPodSandbox(t.Context(), web.SandboxID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if c := s.running("web"); c.SandboxID == web.SandboxID {
			t.Error("it is in the old sandbox")
		}
		s.wantStarts("setup", 2)
		// Another program removes all of the pod's objects from the runtime.
		if err := s.rt.Client().RemovePodSandbox(t.Context(), s.running("web").SandboxID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		s.running("web")
		s.same(db)
		s.wantStarts("db", 1)
	})
}

// TestServeTwice checks that podrun refuses a second supervisor of the same root directory.
func TestServeTwice(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		e := s.engine()
		err := supervisor.New(e, supervisor.Options{Sources: newManifests(t, served)}).Run(t.Context())
		wantErr(t, err, problem.Refused, "another podrun serve process supervises its pods", "root directory")
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		s.running("web")
	})
}

// TestServeEnds checks that containers continue to run when serve exits, regardless of its current
// action, and that the next serve process supervises them.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for after := range 20 {
			s := &serving{rig: newRig(t), files: newManifests(t, served)}
			for _, method := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
				s.rt.Fault(method, critest.Fault{When: critest.Slow, Delay: 100 * time.Millisecond})
			}
			s.files.write(file("web"), podText("web", "Always", "terminationGracePeriodSeconds: 1",
				"containers: [{name: web, image: registry.example/app:1}, {name: db, image: registry.example/app:1}]"))
			s.start()
			time.Sleep(time.Duration(after) * 40 * time.Millisecond)
			s.restart()
			time.Sleep(20 * time.Second)
			s.running("web")
			s.running("db")
			if n := len(s.rt.Sandboxes()); n != 1 {
				t.Errorf("serve exited after %d ms: %d sandboxes", after*40, n)
			}
			if web, db := len(s.starts("web")), len(s.starts("db")); web > 2 || db > 2 {
				t.Errorf("serve exited after %d ms: %d and %d starts", after*40, web, db)
			}
			web := s.running("web")
			s.restart()
			time.Sleep(time.Minute)
			s.same(web)
			s.finish()
		}
	})
}

// TestServeEndsWhileItStarts checks that a signal before serve is ready has the same effect as
// a later one, and that serve does not report an unavailable runtime.
func TestServeEndsWhileItStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.rt.Fault("ListPodSandbox", critest.Fault{When: critest.Hang})()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		e := r.engine()
		files := newManifests(t, served)
		files.write(file("web"), one("Always"))
		s := supervisor.New(e, supervisor.Options{Sources: files, Changed: files.changed, AllowKubelet: true, Ready: func() { t.Error("ready") }})
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
		if len(r.warnings) > 0 {
			t.Errorf("warnings: %q", r.warnings)
		}
		r.nothingLeft()
	})
}
