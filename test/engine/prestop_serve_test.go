package engine

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
	"github.com/podrun/podrun/test/ring"
)

// drainChanges are the ways in which a supervised pod with a preStop hook ends.
var drainChanges = map[string]func(s *serving){
	"file removed":  func(s *serving) { s.files.remove(file("web")) },
	"file changed":  func(s *serving) { s.files.write(file("web"), drainPod("v2")) },
	"serve restart": func(s *serving) { s.restart() },
	"delete":        func(s *serving) { s.delete(run.DeleteOptions{Timeout: testTimeout}, "web") },
	"stop": func(s *serving) {
		run.StopPods(s.t.Context(), s.engine(), s.pod("web"), run.DeleteOptions{Timeout: testTimeout})
	},
	"apply": func(s *serving) {
		_, _ = s.applyAll(s.t.Context(), drainPod("v3")) // another change of the pair may have ended the pod
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
					serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
						drainScripts(s.rig)
						s.files.write(file("web"), drainPod("v1"))
						time.Sleep(time.Minute)
						containers := s.rt.Containers()
						begun := time.Now()
						done := make(chan struct{})
						go func() {
							defer close(done)
							doFirst(s)
						}()
						time.Sleep(after)
						doSecond(s)
						<-done
						t.Logf("%q %q", s.reasons(), s.warnings)
						time.Sleep(2 * time.Minute)
						for _, c := range containers {
							drained(s.rig, c.ID).wantDrained(t, c.Name, begun, []time.Time{begun.Add(drainGrace)})
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
	serveTestWithoutGroups(t, func(t *testing.T, s *serving) {
		drainScripts(s.rig)
		s.rt.ScriptExec("app", func(cmd []string) *critest.Exec {
			if slices.Equal(cmd, []string{"drain"}) {
				return &critest.Exec{After: drainFor}
			}
			return &critest.Exec{ExitCode: 1}
		})
		s.files.write(file("web"), podText("web", "Always", "terminationGracePeriodSeconds: 30", "containers:",
			"- {name: app, image: registry.example/app:1, lifecycle: {preStop: {exec: {command: [drain]}}}, livenessProbe: {exec: {command: [live]}, initialDelaySeconds: 60, periodSeconds: 1, failureThreshold: 1}}"))
		time.Sleep(10 * time.Second)
		app := s.running("app")
		hooks := func() (n int) {
			for _, c := range s.rt.Calls() {
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
		s.noError(s.delete(run.DeleteOptions{Timeout: testTimeout}, "web"))
		if took := time.Since(begun); took > drainGrace+2*time.Second {
			t.Errorf("the delete took %s", took)
		}
		drained(s.rig, app.ID).wantDrained(t, "app", begun, []time.Time{begun.Add(drainGrace - 2*time.Second)})
	})
}

// TestPreStopGraceOfTheWaiter checks that a command that waits for a preStop hook shortens the grace
// period of the hook and of the containers that have been asked to stop, and never extends it.
func TestPreStopGraceOfTheWaiter(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, 5 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Script("app", critest.Behavior{Forever: true, IgnoreTERM: true})
			r.rt.Script("plain", critest.Behavior{Forever: true, IgnoreTERM: true})
			r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: time.Hour} })
			r.mustApply(drainPod("v1"), run.OutcomeCreated)
			time.Sleep(time.Minute)
			containers, begun := r.rt.Containers(), time.Now()
			go r.delete(run.DeleteOptions{}, "web")
			time.Sleep(10 * time.Second)
			r.delete(run.DeleteOptions{Grace: &grace}, "web")
			r.nothingLeft()
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
			r := newRig(t)
			r.rt.Script("app", critest.Behavior{Forever: true, CleanTERM: true})
			r.rt.Script("plain", critest.Behavior{Forever: true, CleanTERM: true})
			r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{} })
			r.mustApply(drainPod("v1"), run.OutcomeCreated)
			app := r.rt.Containers()[0]
			r.killAt(step{method: "ExecSync"}, false, "")
			r.rt.ForgetCalls()
			if err := next.do(t.Context(), r); err != nil {
				t.Error(err)
			}
			s := drained(r, app.ID)
			if len(s.hooks) != 1 || len(s.stops) == 0 || s.hooks[0].Err != nil || s.hooks[0].End.After(s.stops[0].Start) {
				t.Fatalf("the hook ran %d times: %s; the container was stopped at %s", len(s.hooks), traceOf(s.hooks, time.Time{}), traceOf(s.stops, time.Time{}))
			}
			for _, c := range r.rt.Calls() {
				if c.Method == "StopPodSandbox" && c.Start.Before(s.stops[0].Start) {
					t.Error("the sandbox was stopped before the container")
				}
			}
			r.mustDelete()
		})
	}
}
