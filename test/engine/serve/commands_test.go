package serve

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestServeStop checks that a stopped pod remains stopped until a command starts it, even after
// restarts of serve and of the host, and changes of its file.
func TestServeStop(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		time.Sleep(time.Minute)
		db := s.Running("db")
		s.NoError(run.StopPods(t.Context(), s.Engine(), s.Known("web"), run.DeleteOptions{}))
		time.Sleep(10 * time.Minute)
		s.WantStarts("web", 1)
		s.Restart()
		time.Sleep(10 * time.Minute)
		s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1", "app:2", 1))
		time.Sleep(10 * time.Minute)
		s.WantStarts("web", 1)
		if sum := s.Supervisor.Summary().String(); sum != "2 pods: 1 supervised, 1 stopped" {
			t.Error(sum)
		}
		s.NoError(run.StartPods(t.Context(), s.Engine(), s.Known("web"), run.ApplyOptions{AllowKubelet: true}))
		time.Sleep(time.Minute)
		// After that start, the pod must have the new definition.
		if c := s.Running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
			t.Errorf("image %s", c.Config.GetImage())
		}
		s.Same(db)
		// If the file of a stopped pod is removed, serve must delete the pod.
		s.NoError(run.StopPods(t.Context(), s.Engine(), s.Known("web"), run.DeleteOptions{}))
		s.Files.Remove(rig.File("web"))
		time.Sleep(rig.CommandsAfter)
		s.Absent("web")
	})
}

// TestServeDelete checks that serve recreates a deleted pod if a file defines it, but not if a
// command applied it.
func TestServeDelete(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		s.NoError(s.ApplyAll(t.Context(), rig.ServedPod("db")))
		time.Sleep(time.Minute)
		web := s.Running("web")
		if path := serve.SourceOf(s.Engine(), s.Known("web")[0].ID); path != rig.File("web") {
			t.Errorf("its source is %q", path)
		}
		s.NoError(s.Delete(run.DeleteOptions{}, "web"))
		s.NoError(s.Delete(run.DeleteOptions{}, "db"))
		time.Sleep(rig.CommandsAfter)
		if c := s.Running("web"); c.ID == web.ID {
			t.Error("it was not deleted")
		}
		time.Sleep(time.Hour)
		s.Absent("db")
		s.WantStarts("web", 2)
	})
}

// TestServeApplied checks that serve supervises pods of `podrun apply` with the definition that was
// last applied by a command. It must apply a file again only when the file changes.
func TestServeApplied(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.NoError(s.ApplyAll(t.Context(), rig.ServedPod("web")))
		time.Sleep(time.Minute)
		first := s.Running("web")
		s.Exit("web", 1)
		time.Sleep(rig.CommandsAfter)
		if c := s.Running("web"); c.ID == first.ID {
			t.Error("it was not restarted")
		}
		// If a file defines the same pod, the only effect must be that the pod now has a source.
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		s.WantStarts("web", 2)
		// A command updates the pod, once in place and once by replacement.
		s.NoError(s.ApplyAll(t.Context(), strings.Replace(rig.ServedPod("web"), "app:1", "app:2", 1)))
		time.Sleep(time.Hour)
		if c := s.Running("web"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
			t.Errorf("the update was reverted: %s", c.Config.GetImage())
		}
		s.WantStarts("web", 3)
		s.NoError(s.ApplyAll(t.Context(), strings.Replace(rig.ServedPod("web"), "app:1", "app:1, args: [x]", 1)))
		s.Restart()
		time.Sleep(time.Hour)
		s.WantStarts("web", 4)
		if c := s.Running("web"); len(c.Config.GetArgs()) != 1 {
			t.Error("the replacement was reverted")
		}
		s.Files.Write(rig.File("web"), strings.Replace(rig.ServedPod("web"), "app:1", "app:1, args: [z]", 1))
		time.Sleep(time.Minute)
		if c := s.Running("web"); c.Config.GetArgs()[0] != "z" {
			t.Error("the changed file was not applied")
		}
		s.Files.Remove(rig.File("web"))
		time.Sleep(time.Minute)
		s.Absent("web")
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
			rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
				s.NoError(s.ApplyAll(t.Context(), rig.ServedPod("web")))
				time.Sleep(time.Minute)
				before := s.Running("web")
				s.Runtime.Fault(fault.method, fault.Fault)
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				results, err := rig.RestartPods(ctx, s.Engine(), s.Known("web"), run.ApplyOptions{AllowKubelet: true})
				if err == nil && results[0].Err == nil {
					t.Fatal("it was not interrupted")
				}
				time.Sleep(10 * time.Minute)
				if c := s.Running("web"); c.ID == before.ID {
					t.Error("it was not restarted")
				}
			})
		})
	}
}

// TestServeRestartCommand checks that `podrun restart` recreates the pod exactly once.
func TestServeRestartCommand(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		s.NoError(rig.RestartPods(t.Context(), s.Engine(), s.Known("web"), run.ApplyOptions{AllowKubelet: true}))
		time.Sleep(time.Hour)
		s.WantStarts("web", 2)
		s.Running("web")
		// A terminated pod must run again.
		s.Runtime.Script("job", critest.Behavior{After: time.Minute})
		s.Files.Write(rig.File("job"), rig.PodText("job", "Never", "containers: [{name: job, image: registry.example/app:1}]"))
		time.Sleep(10 * time.Minute)
		s.WantStarts("job", 1)
		s.NoError(rig.RestartPods(t.Context(), s.Engine(), s.Known("job"), run.ApplyOptions{AllowKubelet: true}))
		time.Sleep(time.Hour)
		s.WantStarts("job", 2)
	})
}

// TestServeRunPods checks that only `podrun run` acts on the pods of `podrun run`.
func TestServeRunPods(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Runtime.Script("job", critest.Behavior{After: 20 * time.Minute, ExitCode: 3})
		done := make(chan []run.Result, 1)
		text := rig.PodText("job", "Never", "containers: [{name: job, image: registry.example/app:1}]")
		go func() {
			results, err := rig.RunPods(t.Context(), s.Engine(), rig.Load(t, text), run.RunOptions{ApplyOptions: run.ApplyOptions{AllowKubelet: true}})
			if err != nil {
				t.Error(err)
			}
			done <- results
		}()
		time.Sleep(5 * time.Minute)
		s.Restart()
		job := s.Running("job")
		// A pod of the same name in a file must wait until the command exits.
		s.Files.Write(rig.File("job"), rig.PodText("job", "Never", "containers: [{name: job, image: registry.example/app:2}]"))
		time.Sleep(5 * time.Minute)
		s.Same(job)
		results := <-done
		if len(results) != 1 || len(results[0].Containers) != 1 {
			t.Errorf("%+v", results)
		}
		time.Sleep(rig.CommandsAfter)
		s.WantStarts("job", 2)
		if c := s.Running("job"); c.Config.GetImage().GetUserSpecifiedImage() != "registry.example/app:2" {
			t.Errorf("image %s", c.Config.GetImage())
		}
	})
}

// TestServeOutage checks that containers continue to run during an outage of the runtime.
// Afterwards, everything must converge, and podrun must not restart a healthy container.
func TestServeOutage(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Runtime.ScriptExec("web", func([]string) *critest.Exec { return &critest.Exec{} })
		s.Runtime.Script("db", critest.Behavior{After: 15 * time.Minute, ExitCode: 1}, critest.Behavior{Forever: true})
		s.Files.Write(rig.File("web"), rig.PodText("web", "Always", "containers:", "- name: web", "  image: registry.example/app:1",
			"  livenessProbe: {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 1}",
			"  readinessProbe: {exec: {command: [x]}, periodSeconds: 5, failureThreshold: 1}"))
		s.Files.Write(rig.File("db"), rig.ServedPod("db"))
		s.Files.Write(rig.File("gone"), rig.ServedPod("gone"))
		time.Sleep(10 * time.Minute)
		web, starts := s.Running("web"), 0
		for _, restarts := range []bool{false, true} {
			end := s.Outage()
			s.Runtime.ForgetCalls()
			time.Sleep(time.Minute)
			s.Files.Remove(rig.File("gone"))
			s.Files.Write(rig.File("new"), rig.ServedPod("new"))
			time.Sleep(5 * time.Minute)
			if restarts {
				s.Restart()
			}
			time.Sleep(4 * time.Minute)
			if n := len(s.Runtime.Calls()); n > 1000 {
				t.Errorf("%d calls during an outage of 10 minutes", n)
			}
			starts += len(s.Starts("web"))
			if n := s.Warned("does not answer: containers keep running"); n > 2 || n < 1 {
				t.Errorf("the outage was reported %d times: %q", n, s.Warnings())
			}
			end()
			time.Sleep(20 * time.Second)
			s.Same(web)
			s.Running("db")
			s.Running("new")
			s.Absent("gone")
			s.Files.Remove(rig.File("new"))
			time.Sleep(10 * time.Minute)
			s.Absent("new")
			s.Forget()
		}
		if starts > 0 {
			t.Errorf("started %d times during the outages", starts)
		}
		if condition(s, "web", "Ready") != "True" {
			t.Error("the pod is not ready")
		}
	})
}

// TestServeRemovedDuringOutage checks that removing and restoring a file during an outage has no
// effect.
func TestServeRemovedDuringOutage(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		web := s.Running("web")
		end := s.Outage()
		time.Sleep(time.Minute)
		s.Files.Remove(rig.File("web"))
		time.Sleep(time.Minute)
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		end()
		time.Sleep(time.Minute)
		s.Same(web)
		s.WantStarts("web", 1)
	})
}

// TestServeRestartAfterForce covers a restart because of a changed ConfigMap. It must not happen
// again when a command restarts the pod later.
func TestServeRestartAfterForce(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		web := strings.Replace(rig.PodText("web", "Always", "containers: [{name: web, image: registry.example/app:1, envFrom: [{configMapRef: {name: config}}]}]"),
			"{name: web}", `{name: web, annotations: {podrun.dev/restart-on-change: "true"}}`, 1)
		config := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {key: one}"
		s.Files.Write(rig.File("web"), web, config)
		time.Sleep(time.Minute)
		s.Files.Write(rig.File("web"), web, strings.Replace(config, "one", "two", 1))
		time.Sleep(time.Minute)
		s.WantStarts("web", 2)
		for range 3 {
			s.Runtime.ForgetCalls()
			s.NoError(rig.RestartPods(t.Context(), s.Engine(), s.Known("web"), run.ApplyOptions{AllowKubelet: true}))
			time.Sleep(10 * time.Minute)
			s.WantStarts("web", 1)
		}
	})
}

// TestServeDeleteAgain checks that serve immediately recreates a pod that a command deletes or
// restarts, regardless of how often this happens, and does not report a problem.
func TestServeDeleteAgain(t *testing.T) {
	t.Parallel()
	rig.Serve(t, func(t *testing.T, s *rig.Supervised) {
		s.Files.Write(rig.File("web"), rig.ServedPod("web"))
		time.Sleep(time.Minute)
		for i := range 12 {
			if i%3 == 0 {
				s.NoError(rig.RestartPods(t.Context(), s.Engine(), s.Known("web"), run.ApplyOptions{AllowKubelet: true}))
			} else {
				s.NoError(s.Delete(run.DeleteOptions{}, "web"))
			}
			time.Sleep(pollOfState)
			c := s.Running("web")
			s.Exit("web", 1)
			time.Sleep(notice)
			if s.Running("web").ID == c.ID {
				t.Error("it is not supervised")
			}
			time.Sleep(10 * time.Second)
		}
		if len(s.Warnings()) > 0 {
			t.Errorf("warnings %q", s.Warnings())
		}
	})
}

// pollOfState is longer than the interval at which the supervisors in these tests check for effects
// of commands.
const pollOfState = 2100 * time.Millisecond
