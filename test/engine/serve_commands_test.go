package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve"
)

// commandsAfter is how long a supervisor in these tests may take to detect the effect of a command.
// Without StateChanges, it polls every 2 s.
const commandsAfter = 5 * time.Second

// TestServeStop checks that a stopped pod remains stopped until a command starts it, even after
// restarts of serve and of the host, and changes of its file.
func TestServeStop(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		s.files.write(file("db"), servedPod("db"))
		time.Sleep(time.Minute)
		db := s.running("db")
		s.noError(run.StopPods(t.Context(), s.engine(), s.pod("web"), run.DeleteOptions{}))
		time.Sleep(10 * time.Minute)
		s.wantStarts("web", 1)
		s.restart()
		time.Sleep(10 * time.Minute)
		s.files.write(file("web"), strings.Replace(servedPod("web"), "app:1", "app:2", 1))
		time.Sleep(10 * time.Minute)
		s.wantStarts("web", 1)
		if sum := s.super.Summary().String(); sum != "2 pods: 1 supervised, 1 stopped" {
			t.Error(sum)
		}
		s.noError(run.StartPods(t.Context(), s.engine(), s.pod("web"), run.ApplyOptions{AllowKubelet: true}))
		time.Sleep(time.Minute)
		// After that start, the pod must have the new definition.
		if c := s.running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
			t.Errorf("image %s", c.Config.GetImage())
		}
		s.same(db)
		// If the file of a stopped pod is removed, serve must delete the pod.
		s.noError(run.StopPods(t.Context(), s.engine(), s.pod("web"), run.DeleteOptions{}))
		s.files.remove(file("web"))
		time.Sleep(commandsAfter)
		s.absent("web")
	})
}

// TestServeDelete checks that serve recreates a deleted pod if a file defines it, but not if a
// command applied it.
func TestServeDelete(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		s.noError(s.applyAll(t.Context(), servedPod("db")))
		time.Sleep(time.Minute)
		web := s.running("web")
		if path := serve.SourceOf(s.engine(), s.pod("web")[0].ID); path != file("web") {
			t.Errorf("its source is %q", path)
		}
		s.noError(s.delete(run.DeleteOptions{}, "web"))
		s.noError(s.delete(run.DeleteOptions{}, "db"))
		time.Sleep(commandsAfter)
		if c := s.running("web"); c.ID == web.ID {
			t.Error("it was not deleted")
		}
		time.Sleep(time.Hour)
		s.absent("db")
		s.wantStarts("web", 2)
	})
}

// TestServeApplied checks that serve supervises pods of `podrun apply` with the definition that was
// last applied by a command. It must apply a file again only when the file changes.
func TestServeApplied(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.noError(s.applyAll(t.Context(), servedPod("web")))
		time.Sleep(time.Minute)
		first := s.running("web")
		s.exit("web", 1)
		time.Sleep(commandsAfter)
		if c := s.running("web"); c.ID == first.ID {
			t.Error("it was not restarted")
		}
		// If a file defines the same pod, the only effect must be that the pod now has a source.
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		s.wantStarts("web", 2)
		// A command updates the pod, once in place and once by replacement.
		s.noError(s.applyAll(t.Context(), strings.Replace(servedPod("web"), "app:1", "app:2", 1)))
		time.Sleep(time.Hour)
		if c := s.running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
			t.Errorf("the update was reverted: %s", c.Config.GetImage())
		}
		s.wantStarts("web", 3)
		s.noError(s.applyAll(t.Context(), strings.Replace(servedPod("web"), "app:1", "app:1, args: [x]", 1)))
		s.restart()
		time.Sleep(time.Hour)
		s.wantStarts("web", 4)
		if c := s.running("web"); len(c.Config.GetArgs()) != 1 {
			t.Error("the replacement was reverted")
		}
		s.files.write(file("web"), strings.Replace(servedPod("web"), "app:1", "app:1, args: [z]", 1))
		time.Sleep(time.Minute)
		if c := s.running("web"); c.Config.GetArgs()[0] != "z" {
			t.Error("the changed file was not applied")
		}
		s.files.remove(file("web"))
		time.Sleep(time.Minute)
		s.absent("web")
	})
}

// TestServeRestartInterrupted covers a restart that is interrupted before it has recreated the pod.
// If no file defines the pod, the supervisor must start it.
func TestServeRestartInterrupted(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		method string
		critest.Fault
	}{
		"while it stops containers":    {"StopContainer", critest.Fault{When: critest.Slow, Delay: 20 * time.Second, Times: 1}},
		"while it removes the sandbox": {"RemovePodSandbox", critest.Fault{When: critest.Slow, Delay: 20 * time.Second, Times: 1}},
		"while it creates the sandbox": {"RunPodSandbox", critest.Fault{When: critest.Slow, Delay: 20 * time.Second, Times: 1}},
		"sandbox refused":              {"RunPodSandbox", critest.Fault{Times: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			serveTest(t, func(t *testing.T, s *serving) {
				s.noError(s.applyAll(t.Context(), servedPod("web")))
				time.Sleep(time.Minute)
				before := s.running("web")
				s.rt.Fault(fault.method, fault.Fault)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				results, err := restartPods(ctx, s.engine(), s.pod("web"), run.ApplyOptions{AllowKubelet: true})
				if err == nil && results[0].Err == nil {
					t.Fatal("it was not interrupted")
				}
				time.Sleep(10 * time.Minute)
				if c := s.running("web"); c.ID == before.ID {
					t.Error("it was not restarted")
				}
			})
		})
	}
}

// TestServeRestartCommand checks that `podrun restart` recreates the pod exactly once.
func TestServeRestartCommand(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		s.noError(restartPods(t.Context(), s.engine(), s.pod("web"), run.ApplyOptions{AllowKubelet: true}))
		time.Sleep(time.Hour)
		s.wantStarts("web", 2)
		s.running("web")
		// A terminated pod must run again.
		s.rt.Script("job", critest.Behavior{After: time.Minute})
		s.files.write(file("job"), podText("job", "Never", "containers: [{name: job, image: registry.example/app:1}]"))
		time.Sleep(10 * time.Minute)
		s.wantStarts("job", 1)
		s.noError(restartPods(t.Context(), s.engine(), s.pod("job"), run.ApplyOptions{AllowKubelet: true}))
		time.Sleep(time.Hour)
		s.wantStarts("job", 2)
	})
}

// TestServeRunPods checks that only `podrun run` acts on the pods of `podrun run`.
func TestServeRunPods(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.rt.Script("job", critest.Behavior{After: 20 * time.Minute, ExitCode: 3})
		done := make(chan []run.Result, 1)
		text := podText("job", "Never", "containers: [{name: job, image: registry.example/app:1}]")
		go func() {
			results, err := runPods(t.Context(), s.engine(), load(t, text), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}})
			if err != nil {
				t.Error(err)
			}
			done <- results
		}()
		time.Sleep(5 * time.Minute)
		s.restart()
		job := s.running("job")
		// A pod of the same name in a file must wait until the command exits.
		s.files.write(file("job"), podText("job", "Never", "containers: [{name: job, image: registry.example/app:2}]"))
		time.Sleep(5 * time.Minute)
		s.same(job)
		results := <-done
		if len(results) != 1 || len(results[0].Containers) != 1 {
			t.Errorf("%+v", results)
		}
		time.Sleep(commandsAfter)
		s.wantStarts("job", 2)
		if c := s.running("job"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
			t.Errorf("image %s", c.Config.GetImage())
		}
	})
}

// TestServeOutage checks that containers continue to run during an outage of the runtime.
// Afterwards, everything must converge, and podrun must not restart a healthy container.
func TestServeOutage(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.rt.ScriptExec("web", func([]string) *critest.Exec { return &critest.Exec{} })
		s.rt.Script("db", critest.Behavior{After: 15 * time.Minute, ExitCode: 1}, critest.Behavior{Forever: true})
		s.files.write(file("web"), podText("web", "Always", "containers:", "- name: web", "  image: registry.example/app:1",
			"  livenessProbe: {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 1}",
			"  readinessProbe: {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 1}"))
		s.files.write(file("db"), servedPod("db"))
		s.files.write(file("gone"), servedPod("gone"))
		time.Sleep(10 * time.Minute)
		web, starts := s.running("web"), 0
		for _, restarts := range []bool{false, true} {
			end := s.outage()
			s.rt.ForgetCalls()
			time.Sleep(time.Minute)
			s.files.remove(file("gone"))
			s.files.write(file("new"), servedPod("new"))
			time.Sleep(5 * time.Minute)
			if restarts {
				s.restart()
			}
			time.Sleep(4 * time.Minute)
			if n := len(s.rt.Calls()); n > 1000 {
				t.Errorf("%d calls during an outage of 10 minutes", n)
			}
			starts += len(s.starts("web"))
			if n := s.warned("does not answer: containers keep running"); n > 2 || n < 1 {
				t.Errorf("the outage was reported %d times: %q", n, s.warnings)
			}
			end()
			time.Sleep(20 * time.Second)
			s.same(web)
			s.running("db")
			s.running("new")
			s.absent("gone")
			s.files.remove(file("new"))
			time.Sleep(10 * time.Minute)
			s.absent("new")
			s.warnings = nil
		}
		if starts > 0 {
			t.Errorf("started %d times during the outages", starts)
		}
		if s.condition("web", "Ready") != "True" {
			t.Error("the pod is not ready")
		}
	})
}

// TestServeRemovedDuringOutage checks that removing and restoring a file during an outage has no
// effect.
func TestServeRemovedDuringOutage(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		web := s.running("web")
		end := s.outage()
		time.Sleep(time.Minute)
		s.files.remove(file("web"))
		time.Sleep(time.Minute)
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		end()
		time.Sleep(time.Minute)
		s.same(web)
		s.wantStarts("web", 1)
	})
}

// TestServeRestartAfterForce covers a restart because of a changed ConfigMap. It must not happen
// again when a command restarts the pod later.
func TestServeRestartAfterForce(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		web := strings.Replace(podText("web", "Always", "containers: [{name: web, image: registry.example/app:1, envFrom: [{configMapRef: {name: config}}]}]"),
			"{name: web}", `{name: web, annotations: {podrun.dev/restart-on-change: "true"}}`, 1)
		config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {key: one}"
		s.files.write(file("web"), web, config)
		time.Sleep(time.Minute)
		s.files.write(file("web"), web, strings.Replace(config, "one", "two", 1))
		time.Sleep(time.Minute)
		s.wantStarts("web", 2)
		for range 3 {
			s.rt.ForgetCalls()
			s.noError(restartPods(t.Context(), s.engine(), s.pod("web"), run.ApplyOptions{AllowKubelet: true}))
			time.Sleep(10 * time.Minute)
			s.wantStarts("web", 1)
		}
	})
}

// TestServeDeleteAgain checks that serve immediately recreates a pod that a command deletes or
// restarts, regardless of how often this happens, and does not report a problem.
func TestServeDeleteAgain(t *testing.T) {
	t.Parallel()
	serveTest(t, func(t *testing.T, s *serving) {
		s.files.write(file("web"), servedPod("web"))
		time.Sleep(time.Minute)
		for i := range 12 {
			if i%3 == 0 {
				s.noError(restartPods(t.Context(), s.engine(), s.pod("web"), run.ApplyOptions{AllowKubelet: true}))
			} else {
				s.noError(s.delete(run.DeleteOptions{}, "web"))
			}
			time.Sleep(pollOfState)
			c := s.running("web")
			s.exit("web", 1)
			time.Sleep(notice)
			if s.running("web").ID == c.ID {
				t.Error("it is not supervised")
			}
			time.Sleep(10 * time.Second)
		}
		if len(s.warnings) > 0 {
			t.Errorf("warnings %q", s.warnings)
		}
	})
}

// pollOfState is longer than the interval at which the supervisors in these tests check for effects
// of commands.
const pollOfState = 2100 * time.Millisecond
