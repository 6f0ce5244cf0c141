package serve

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
	"github.com/podrun/podrun/test/engine/rig"
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
			rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
				crash := critest.Behavior{ExitCode: 1, After: time.Second}
				s.Runtime.Script("web", crash, crash, crash, crash, crash, crash, crash, crash, critest.Behavior{After: 11 * time.Minute, ExitCode: 1}, crash, crash,
					critest.Behavior{Forever: true})
				s.Files.Write(rig.File("web"), rig.ServedPod("web"))
				for range 300 {
					time.Sleep(10 * time.Second)
					if restarts {
						s.Restart()
					}
				}
				run := time.Second
				wantGaps(t, gaps(s.Starts("web")), run, run+10*time.Second, run+20*time.Second, run+40*time.Second, run+80*time.Second, run+160*time.Second,
					run+300*time.Second, run+300*time.Second, 11*time.Minute, run+10*time.Second, run+20*time.Second)
				s.Running("web")
			})
		})
	}
}

// TestServePolicies checks that serve restarts containers according to the policy
// (run/lifecycle.TestNext: each policy), and that containers that have terminated permanently do not run
// again.
func TestServePolicies(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		policy string
		code   int32
		starts int // number of starts in an hour, for a container whose runs take a minute
	}{{"OnFailure", 0, 1}, {"OnFailure", 1, 14}} {
		t.Run(fmt.Sprintf("%s, code %d", tc.policy, tc.code), func(t *testing.T) {
			rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
				s.Runtime.Script("web", critest.Behavior{After: time.Minute, ExitCode: tc.code})
				s.Files.Write(rig.File("web"), rig.PodText("web", tc.policy, "containers: [{name: web, image: registry.example/app:1}]"))
				time.Sleep(30 * time.Minute)
				s.Restart()
				time.Sleep(30 * time.Minute)
				if n := len(s.Starts("web")); n < tc.starts-1 || n > tc.starts+1 || tc.starts == 1 && n != 1 {
					t.Errorf("%d starts, want %d", n, tc.starts)
				}
				if tc.starts > 1 {
					return
				}
				// This simulates a reboot of the host.
				s.Runtime.Restart()
				s.Restart()
				time.Sleep(10 * time.Minute)
				s.WantStarts("web", 1)
				if sum := s.Supervisor.Summary().String(); sum != "1 pods: 1 ended" {
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
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		s.NoError(s.ApplyAll(t.Context(), rig.ServedPod("applied")))
		time.Sleep(time.Minute)
		web := s.Running("web")
		s.NoError(run.StopPods(t.Context(), s.Engine(), s.Known("db"), run.DeleteOptions{}))
		s.End()
		s.Runtime.Restart()
		s.Start()
		time.Sleep(10 * time.Second)
		c := s.Running("web")
		if c.ID == web.ID || c.Config.GetMetadata().GetAttempt() != 1 || c.SandboxID == web.SandboxID {
			t.Errorf("attempt %d", c.Config.GetMetadata().GetAttempt())
		}
		s.Running("applied")
		time.Sleep(time.Hour)
		s.WantStarts("db", 1)
		s.WantStarts("web", 2)
		s.NoError(run.StartPods(t.Context(), s.Engine(), s.Known("db"), run.ApplyOptions{AllowKubelet: true}))
		time.Sleep(time.Minute)
		s.Running("db")
	})
}

// TestServeProbes checks the effect of each kind of probe.
func TestServeProbes(t *testing.T) {
	t.Parallel()
	probed := func(kind string) string {
		return rig.PodText("web", "Always", "terminationGracePeriodSeconds: 1", "containers:",
			"- {name: web, image: registry.example/app:1, "+kind+": {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 3}}")
	}
	answer := func(s *rig.Supervised, code int32) {
		s.Runtime.ScriptExec("web", func([]string) *critest.Exec { return &critest.Exec{ExitCode: code} })
	}
	t.Run("liveness", func(t *testing.T) {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			answer(s, 0)
			s.Files.Write(rig.File("web"), probed("livenessProbe"))
			time.Sleep(time.Hour)
			s.WantStarts("web", 1)
			answer(s, 1)
			time.Sleep(17 * time.Second)
			s.WantStarts("web", 2)
			if !s.Emitted("Killing web", "failed liveness probe, will be restarted") {
				t.Errorf("events %q", s.Reasons())
			}
			// After a long run, the first restart has no back-off, and the second one has 10 s. The
			// first probe of a container begins 1 s after its start.
			time.Sleep(15 * time.Second)
			answer(s, 0)
			time.Sleep(time.Hour)
			s.WantStarts("web", 3)
			wantGaps(t, gaps(s.Starts("web"))[1:], 11*time.Second+10*time.Second)
		})
	})
	t.Run("startup", func(t *testing.T) {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			answer(s, 1)
			s.Files.Write(rig.File("web"), probed("startupProbe"))
			time.Sleep(17 * time.Second)
			s.WantStarts("web", 2)
			answer(s, 0)
			time.Sleep(10 * time.Second)
			// After a success, the startup probe does not run again.
			answer(s, 1)
			time.Sleep(time.Hour)
			s.WantStarts("web", 2)
			s.Restart()
			time.Sleep(time.Hour)
			s.WantStarts("web", 2)
		})
	})
	t.Run("readiness", func(t *testing.T) {
		rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
			answer(s, 1)
			s.Files.Write(rig.File("web"), probed("readinessProbe"))
			ready := func() string { return condition(s, "web", "Ready") }
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
			s.Restart()
			if ready() != "True" {
				t.Errorf("after a restart of serve ready: %s", ready())
			}
			answer(s, 1)
			time.Sleep(17 * time.Second)
			if ready() != "False" {
				t.Errorf("ready: %s", ready())
			}
			s.WantStarts("web", 1)
		})
	})
}

// condition returns the status of a pod's condition, as another process shows it.
func condition(s *rig.Supervised, pod, kind string) string {
	s.T.Helper()
	for _, c := range statusOf(s, pod).Conditions {
		if string(c.Type) == kind {
			return string(c.Status)
		}
	}
	return ""
}

// TestServeHooks checks that postStart runs at each start, and preStop at each stop.
func TestServeHooks(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		var ran []string
		s.Runtime.ScriptExec("web", func(cmd []string) *critest.Exec {
			ran = append(ran, cmd[0])
			return &critest.Exec{After: time.Second}
		})
		s.Runtime.Script("web", critest.Behavior{After: time.Minute, ExitCode: 1}, critest.Behavior{Forever: true})
		s.Files.Write(rig.File("web"), rig.PodText("web", "Always", "containers:", "- name: web", "  image: registry.example/app:1",
			"  lifecycle: {postStart: {exec: {command: [hello]}}, preStop: {exec: {command: [bye]}}}"))
		time.Sleep(5 * time.Minute)
		s.Restart()
		time.Sleep(5 * time.Minute)
		s.Files.Remove(rig.File("web"))
		time.Sleep(10 * time.Second)
		s.Absent("web")
		if !slices.Equal(ran, []string{"hello", "hello", "bye"}) {
			t.Errorf("hooks %q", ran)
		}
	})
}

// TestServeDeadline checks that activeDeadlineSeconds count from the pod's start, regardless of
// restarts of serve, and that pods that exceeded them remain terminated.
func TestServeDeadline(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.PodText("web", "Always", "activeDeadlineSeconds: 600", "terminationGracePeriodSeconds: 1",
			"containers: [{name: web, image: registry.example/app:1}]"))
		time.Sleep(5 * time.Minute)
		s.Restart()
		time.Sleep(5*time.Minute - 5*time.Second)
		s.Running("web")
		time.Sleep(10 * time.Second)
		if c, _ := s.Runtime.Container("web"); c.FinishedAt.IsZero() {
			t.Error("the pod continues to run")
		}
		if !s.Emitted("DeadlineExceeded", "Pod was active on the node longer than the specified deadline") {
			t.Errorf("events %q", s.Reasons())
		}
		s.Restart()
		time.Sleep(time.Hour)
		s.WantStarts("web", 1)
		if n := rig.Count(s.Reasons(), "DeadlineExceeded"); n != 1 {
			t.Errorf("podrun reported the deadline %d times: %q", n, s.Reasons())
		}
	})
}

// TestServeSidecars checks that sidecars start in order, are restarted with their own back-off,
// and stop with the pod.
func TestServeSidecars(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Runtime.Script("setup", critest.Behavior{After: 10 * time.Second})
		s.Runtime.Script("side", critest.Behavior{After: time.Minute, ExitCode: 1}, critest.Behavior{After: time.Minute}, critest.Behavior{Forever: true})
		s.Runtime.Script("web", critest.Behavior{After: 10 * time.Minute})
		s.Files.Write(rig.File("web"), rig.PodText("web", "Never", "terminationGracePeriodSeconds: 5",
			"initContainers:", "- {name: side, image: registry.example/app:1, restartPolicy: Always}", "- {name: setup, image: registry.example/setup:1}",
			"containers: [{name: web, image: registry.example/app:1}]"))
		time.Sleep(8 * time.Minute)
		s.Running("side")
		s.Running("web")
		wantGaps(t, gaps(s.Starts("side")), time.Minute, time.Minute+10*time.Second)
		wantGaps(t, gaps(append(s.Starts("side")[:1], append(s.Starts("setup"), s.Starts("web")...)...)), 0, 10*time.Second)
		time.Sleep(time.Hour)
		if c, _ := s.Runtime.Container("side"); c.FinishedAt.IsZero() {
			t.Error("the sidecar outlived the pod")
		}
		s.WantStarts("web", 1)
		s.WantStarts("setup", 1)
		s.WantStarts("side", 3)
	})
}

// TestServeSandboxDies checks that the pod gets a new sandbox, in which its init containers run
// again.
func TestServeSandboxDies(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Runtime.Script("setup", critest.Behavior{})
		s.Files.Write(rig.File("web"), rig.PodText("web", "Always", "initContainers: [{name: setup, image: registry.example/setup:1}]",
			"containers: [{name: web, image: registry.example/app:1}]"))
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		time.Sleep(20 * time.Minute)
		web, db := s.Running("web"), s.Running("db")
		if err := s.Runtime.Client().StopPodSandbox(t.Context(), web.SandboxID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if c := s.Running("web"); c.SandboxID == web.SandboxID {
			t.Error("it is in the old sandbox")
		}
		s.WantStarts("setup", 2)
		// Another program removes all of the pod's objects from the runtime.
		if err := s.Runtime.Client().RemovePodSandbox(t.Context(), s.Running("web").SandboxID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		s.Running("web")
		s.Same(db)
		s.WantStarts("db", 1)
	})
}

// TestServeTwice checks that podrun refuses a second supervisor of the same root directory.
func TestServeTwice(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		e := s.Engine()
		err := supervisor.New(e, supervisor.Options{Sources: rig.NewManifests(t, rig.ManifestDir)}).Run(t.Context())
		rig.WantErr(t, err, problem.Refused, "another podrun serve process supervises its pods", "root directory")
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		s.Running("web")
	})
}

// TestServeEnds checks that containers continue to run when serve exits, regardless of its current
// action, and that the next serve process supervises them.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for after := range 20 {
			s := rig.NewSupervised(t)
			for _, method := range []string{"RunPodSandbox", "CreateContainer", "StartContainer"} {
				s.Runtime.Fault(method, critest.Fault{When: critest.Slow, Delay: 100 * time.Millisecond})
			}
			s.Files.Write(rig.File("web"), rig.PodText("web", "Always", "terminationGracePeriodSeconds: 1",
				"containers: [{name: web, image: registry.example/app:1}, {name: db, image: registry.example/app:1}]"))
			s.Start()
			time.Sleep(time.Duration(after) * 40 * time.Millisecond)
			s.Restart()
			time.Sleep(20 * time.Second)
			s.Running("web")
			s.Running("db")
			if n := len(s.Runtime.Sandboxes()); n != 1 {
				t.Errorf("serve exited after %d ms: %d sandboxes", after*40, n)
			}
			if web, db := len(s.Starts("web")), len(s.Starts("db")); web > 2 || db > 2 {
				t.Errorf("serve exited after %d ms: %d and %d starts", after*40, web, db)
			}
			web := s.Running("web")
			s.Restart()
			time.Sleep(time.Minute)
			s.Same(web)
			s.Finish()
		}
	})
}

// TestServeEndsWhileItStarts checks that a signal before serve is ready has the same effect as
// a later one, and that serve does not report an unavailable runtime.
func TestServeEndsWhileItStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		defer r.Runtime.Fault("ListPodSandbox", critest.Fault{When: critest.Hang})()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		e := r.Engine()
		files := rig.NewManifests(t, rig.ManifestDir)
		files.Write(rig.File("web"), rig.Web("Always"))
		o := files.Options()
		o.Ready = func() { t.Error("ready") }
		if err := supervisor.New(e, o).Run(ctx); err != nil {
			t.Error(err)
		}
		if len(r.Warnings()) > 0 {
			t.Errorf("warnings: %q", r.Warnings())
		}
		r.NothingLeft()
	})
}
