package ownership

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/ring"
)

// drainChanges are the ways in which a supervised pod with a preStop hook ends.
var drainChanges = map[string]func(s *rig.Supervised){
	"file removed":  func(s *rig.Supervised) { s.Files.Remove(rig.File("web")) },
	"file changed":  func(s *rig.Supervised) { s.Files.Write(rig.File("web"), drainPod("v2")) },
	"serve restart": func(s *rig.Supervised) { s.Restart() },
	"delete":        func(s *rig.Supervised) { s.Delete(run.DeleteOptions{Timeout: rig.Timeout}, "web") },
	"stop": func(s *rig.Supervised) {
		run.StopPods(s.T.Context(), s.Engine(), s.Known("web"), run.DeleteOptions{Timeout: rig.Timeout})
	},
	"apply": func(s *rig.Supervised) {
		_, _ = s.ApplyAll(s.T.Context(), drainPod("v3")) // another change of the pair may have ended the pod
	},
}

// TestPreStopBesideServe runs two changes of a supervised pod. The second one happens while the
// preStop hook of the first one runs, or after it. In ring 3, the test tries all pairs (60);
// otherwise one in prestopSample.
func TestPreStopBesideServe(t *testing.T) {
	t.Parallel()
	tried := 0
	for _, first := range slices.Sorted(maps.Keys(drainChanges)) {
		doFirst := drainChanges[first]
		if first == "serve restart" {
			continue // it stops no container
		}
		for _, second := range slices.Sorted(maps.Keys(drainChanges)) {
			doSecond := drainChanges[second]
			for _, after := range []time.Duration{2 * time.Second, drainFor + time.Second} {
				if tried++; tried%prestopSample != 0 && !ring.Is(3) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s after %s", first, second, after), func(t *testing.T) {
					rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
						drainScripts(s.Host)
						s.Files.Write(rig.File("web"), drainPod("v1"))
						time.Sleep(time.Minute)
						containers := s.Runtime.Containers()
						begun := time.Now()
						done := make(chan struct{})
						go func() {
							defer close(done)
							doFirst(s)
						}()
						time.Sleep(after)
						doSecond(s)
						<-done
						t.Logf("%q %q", s.Reasons(), s.Warnings())
						time.Sleep(2 * time.Minute)
						for _, c := range containers {
							drained(s.Host, c.ID).wantDrained(t, c.Name, begun, []time.Time{begun.Add(drainGrace)})
						}
					})
				})
			}
		}
	}
}

// TestPreStopOfLivenessProbe checks that a delete waits for the preStop hook of a container that the
// supervisor kills because of its liveness probe, although the supervisor never ends.
func TestPreStopOfLivenessProbe(t *testing.T) {
	t.Parallel()
	rig.ServeWithoutCgroups(t, func(t *testing.T, s *rig.Supervised) {
		drainScripts(s.Host)
		s.Runtime.ScriptExec("app", func(cmd []string) *critest.Exec {
			if slices.Equal(cmd, []string{"drain"}) {
				return &critest.Exec{After: drainFor}
			}
			return &critest.Exec{ExitCode: 1}
		})
		s.Files.Write(rig.File("web"), rig.PodText("web", "Always", "terminationGracePeriodSeconds: 30", "containers:",
			"- {name: app, image: registry.example/app:1, lifecycle: {preStop: {exec: {command: [drain]}}}, livenessProbe: {exec: {command: [live]}, initialDelaySeconds: 60, periodSeconds: 1, failureThreshold: 1}}"))
		time.Sleep(10 * time.Second)
		app := s.Running("app")
		hooks := func() (n int) {
			for _, c := range s.Runtime.Calls() {
				if req, ok := c.Request.(*runtimeapi.ExecSyncRequest); ok && slices.Equal(req.GetCmd(), []string{"drain"}) {
					n++
				}
			}
			return n
		}
		for range 200 {
			if time.Sleep(time.Second); hooks() > 0 {
				break
			}
		}
		begun := time.Now()
		s.NoError(s.Delete(run.DeleteOptions{Timeout: rig.Timeout}, "web"))
		if took := time.Since(begun); took > drainGrace+2*time.Second {
			t.Errorf("the delete took %s", took)
		}
		drained(s.Host, app.ID).wantDrained(t, "app", begun, []time.Time{begun.Add(drainGrace - 2*time.Second)})
	})
}

// TestPreStopGraceOfTheWaiter checks that a command that waits for a preStop hook shortens the grace
// period of the hook and of the containers that have been asked to stop, and never extends it.
func TestPreStopGraceOfTheWaiter(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, 5 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
			r.Runtime.Script("plain", critest.Behavior{Forever: true, IgnoreTERM: true})
			r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: time.Hour} })
			r.MustApply(drainPod("v1"), run.OutcomeCreated)
			time.Sleep(time.Minute)
			containers, begun := r.Runtime.Containers(), time.Now()
			go r.Delete(run.DeleteOptions{}, "web")
			time.Sleep(10 * time.Second)
			r.Delete(run.DeleteOptions{Grace: &grace}, "web")
			r.NothingLeft()
			// After the hook, app has at least 2 s to exit.
			end := 10*time.Second + min(grace, 20*time.Second)
			if took := time.Since(begun); took < end || took > end+4*time.Second {
				t.Errorf("with %s, the pod ended after %s, want %s", grace, took, end)
			}
			for _, c := range containers {
				drained(r, c.ID).wantDrained(t, c.Name, begun, []time.Time{begun.Add(end)})
			}
		})
	}
}

// TestPreStopOfKilled kills a process with SIGKILL while it runs a preStop hook. The next command runs
// the hook again, before it stops a container or a sandbox.
func TestPreStopOfKilled(t *testing.T) {
	t.Parallel()
	for name, next := range drainCommands() {
		if name == "wait" || next.grace == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Runtime.Script("app", critest.Behavior{Forever: true, CleanTERM: true})
			r.Runtime.Script("plain", critest.Behavior{Forever: true, CleanTERM: true})
			r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
			r.MustApply(drainPod("v1"), run.OutcomeCreated)
			app := r.Runtime.Containers()[0]
			r.KillAt(rig.Step{Method: "ExecSync"}, false, "")
			r.Runtime.ForgetCalls()
			if err := next.do(t.Context(), r); err != nil {
				t.Error(err)
			}
			s := drained(r, app.ID)
			if len(s.hooks) != 1 || len(s.stops) == 0 || s.hooks[0].Err != nil || s.hooks[0].End.After(s.stops[0].Start) {
				t.Fatalf("the hook ran %d times: %s; the container was stopped at %s", len(s.hooks), traceOf(s.hooks, time.Time{}), traceOf(s.stops, time.Time{}))
			}
			for _, c := range r.Runtime.Calls() {
				if c.Method == "StopPodSandbox" && c.Start.Before(s.stops[0].Start) {
					t.Error("the sandbox was stopped before the container")
				}
			}
			r.MustDelete()
		})
	}
}
