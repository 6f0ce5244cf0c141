package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
)

// endCommands are the commands that end a pod, with the error that they cause in an apply of the pod.
var endCommands = map[string]func(r *rig) error{
	"was deleted by process": func(r *rig) error {
		results, err := run.DeletePods(r.t.Context(), r.engine(), r.known(), run.DeleteOptions{})
		return errorOf(results, err)
	},
	"was stopped by process": func(r *rig) error {
		return errorOf(run.StopPods(r.t.Context(), r.engine(), r.known(), run.DeleteOptions{}), nil)
	},
}

// TestEndWhileApplyWaits covers a delete and a stop of a pod for which an apply waits. The apply holds no lock
// during the wait, so the other command takes effect immediately. The apply must report it, and must neither
// report a failure of the hook that it canceled nor write the results of probes. After a stop, no command that
// only waits may start the pod again.
func TestEndWhileApplyWaits(t *testing.T) {
	t.Parallel()
	const mounted = "containers: [{name: app, image: registry.example/app:1, volumeMounts: [{name: data, mountPath: /data}]}]"
	forever := critest.Behavior{Forever: true}
	for name, wait := range map[string]struct {
		text  string
		setup critest.Behavior
		call  string // the call for which podrun waits, or after which it waits
	}{
		"an init container": {withInit("Always"), forever, "StartContainer setup"},
		"a back-off":        {withInit("Always"), critest.Behavior{ExitCode: 1}, "StartContainer setup"},
		"an init container, after a startup probe": {podText("web", "Always", "initContainers:",
			"- {name: side, image: registry.example/web:1, restartPolicy: Always, startupProbe: {exec: {command: [x]}, periodSeconds: 1}}",
			"- {name: setup, image: registry.example/setup:1}", "containers: [{name: app, image: registry.example/app:1}]"), forever, "StartContainer setup"},
		"a pull":                      {podText("web", "Always", far), forever, "PullImage registry.example/far:1"},
		"the pull of an image volume": {podText("web", "Always", "volumes: [{name: data, image: {reference: registry.example/far:1}}]", mounted), forever, "PullImage registry.example/far:1"},
		"a postStart hook":            {podText("web", "Always", hooked), forever, "ExecSync app"},
	} {
		for reported, end := range endCommands {
			t.Run(name+" "+reported, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRig(t, critest.Version("containerd", "v2.1.4"))
					r.rt.AddRemote(critest.Image{Name: "registry.example/far:1", PullDelay: time.Hour})
					r.rt.Script("setup", wait.setup)
					r.rt.ScriptExec("side", func([]string) *critest.Exec { return &critest.Exec{} })
					r.rt.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 100 * time.Hour} })
					_, applied := r.applyLater(wait.text, 5*time.Hour)
					time.Sleep(time.Minute)
					if !slices.Contains(r.rt.Changes(), wait.call) {
						t.Fatalf("the apply does not wait for %s: %q", name, r.rt.Changes())
					}
					known, begun := r.known(), time.Now()
					r.rt.ForgetCalls()
					if err := end(r); err != nil {
						t.Error(err)
					}
					wantErr(t, (<-applied).Err, problem.Failed, "pod default/web", reported)
					if took := time.Since(begun); took > 2*time.Second {
						t.Errorf("took %s", took)
					}
					if calls := r.rt.CallNames("StartContainer", "ExecSync"); len(calls) > 0 || r.emitted("FailedPostStartHook app", "") {
						t.Errorf("calls %q, events %q", calls, r.reasons())
					}
					if reported == "was stopped by process" {
						wantErr(t, run.Wait(t.Context(), r.engine(), known[0], run.WaitOptions{For: lifecycle.GoalReady}).Err, problem.Failed, reported)
					}
					time.Sleep(2 * time.Hour)
					if calls := r.rt.CallNames("StartContainer", "ExecSync"); len(calls) > 0 {
						t.Errorf("calls %q after the end", calls)
					}
					r.delete(run.DeleteOptions{})
					r.nothingLeft()
				})
			})
		}
	}
}

// TestOutage covers a restart of the runtime, during which the containers keep running. A wait for
// them must continue.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		outage time.Duration
		ok     bool
	}{{30 * time.Second, true}, {3 * time.Minute, false}} {
		t.Run(tc.outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.rt.Script("setup", critest.Behavior{After: 5 * time.Minute})
				time.AfterFunc(time.Minute, func() {
					for _, method := range []string{"ContainerStatus", "ListContainers", "ListPodSandbox", "PodSandboxStatus"} {
						time.AfterFunc(tc.outage, r.rt.Fault(method, critest.Fault{When: critest.Before}))
					}
				})
				result := r.apply(withInit("Always"))
				if tc.ok && result.Err != nil {
					t.Error(result.Err)
				}
				if !tc.ok {
					wantErr(t, result.Err, problem.Runtime, "pod default/web", "init container setup has not finished")
				}
				time.Sleep(10 * time.Minute)
				r.mustDelete()
			})
		})
	}
}

// TestApplyWhileApplyWaits covers a new version of a pod that replaces the pod for which
// another apply waits.
func TestApplyWhileApplyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("setup", critest.Behavior{Forever: true}, critest.Behavior{})
		done := make(chan run.Result)
		go func() { done <- r.apply(withInit("Always")) }()
		time.Sleep(time.Minute)
		r.mustApply(strings.Replace(withInit("Always"), "registry.example/app:1", "registry.example/app:1, args: [x]", 1), run.OutcomeReplaced)
		wantErr(t, (<-done).Err, problem.Failed, "was deleted by process")
		if n := len(r.rt.Sandboxes()); n != 1 {
			t.Errorf("%d sandboxes", n)
		}
		r.mustDelete()
	})
}

// TestApplySamePodAtOnce checks that one of several commands that concurrently apply a pod creates
// the pod, and that the others find it.
func TestApplySamePodAtOnce(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"no init": 0, "init takes a minute": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				text := one("Always")
				if after > 0 {
					text = withInit("Always")
					r.rt.Script("setup", critest.Behavior{After: after})
				}
				results := make([]run.Result, 5)
				var wg sync.WaitGroup
				for i := range results {
					wg.Go(func() { results[i] = r.apply(text) })
				}
				wg.Wait()
				made := 0
				for _, result := range results {
					if result.Err != nil {
						t.Error(result.Err)
					}
					if result.Outcome == run.OutcomeCreated {
						made++
					}
				}
				if made != 1 {
					t.Errorf("%d commands created the pod", made)
				}
				// The other commands do nothing, and must report the pod as unchanged (faults.md, F10).
				// One of them may have taken over the pod and started the container app.
				started := 0
				for _, result := range results {
					if result.Outcome == run.OutcomeRestarted {
						started++
					}
				}
				if most := map[bool]int{false: 0, true: 1}[after > 0]; started > most {
					t.Errorf("%d commands report that they started a container, want at most %d", started, most)
				}
				for _, call := range []string{"RunPodSandbox", "StartContainer app"} {
					if n := countOf(r.rt.Changes(), call); n != 1 {
						t.Errorf("%s %d times", call, n)
					}
				}
				if told := slices.ContainsFunc(r.warnings, func(w string) bool { return strings.HasPrefix(w, "waiting for process ") }); told && after == 0 {
					t.Errorf("a wait of no duration is reported: %q", r.warnings)
				}
				r.mustDelete()
			})
		})
	}
}

// someText returns the manifest of a pod whose name contains the number.
func someText(i int) string {
	return podText(fmt.Sprintf("pod-%d", i), "Always", "initContainers: [{name: setup, image: registry.example/setup:1}]",
		"containers: [{name: app, image: registry.example/app:1}, {name: web, image: registry.example/web:1}]")
}

func TestTwentyPodsAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("in one command", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.rt.Script("setup", critest.Behavior{After: time.Second})
			var texts []string
			for i := range 20 {
				texts = append(texts, someText(i))
			}
			begun := time.Now()
			results, err := r.applyAll(t.Context(), texts...)
			if err != nil {
				t.Fatal(err)
			}
			checkTwenty(t, r, results)
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("they waited for each other: %s", took)
			}
		})
	})
	t.Run("each by a command of its own", func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("setup", critest.Behavior{After: 10 * time.Millisecond})
		results := make([]run.Result, 20)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() { results[i] = r.apply(someText(i)) })
		}
		wg.Wait()
		checkTwenty(t, r, results)
	})
}

func checkTwenty(t *testing.T, r *rig, results []run.Result) {
	t.Helper()
	ips := map[string]bool{}
	for i, result := range results {
		if result.Err != nil || result.Outcome != run.OutcomeCreated || result.ID.Name != fmt.Sprintf("pod-%d", i) {
			t.Errorf("%s: %s, %v", result.ID, result.Outcome, result.Err)
		}
		ips[result.Status.PodIP] = true
	}
	if len(ips) != 20 || len(r.rt.Containers()) != 60 {
		t.Errorf("%d addresses, %d containers", len(ips), len(r.rt.Containers()))
	}
	r.mustDelete()
}

// TestGetWhilePodsComeAndGo checks that get returns no error for a pod that is removed after it
// was listed.
func TestGetWhilePodsComeAndGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.rt.Script("setup", critest.Behavior{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			e := r.engine()
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := lookup.Pods(context.Background(), e, lookup.Selector{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	var pods sync.WaitGroup
	for i := range 4 {
		pods.Go(func() {
			for range 4 {
				if result := r.apply(someText(i)); result.Err != nil {
					t.Error(result.Err)
				}
				r.delete(run.DeleteOptions{}, fmt.Sprintf("pod-%d", i))
			}
		})
	}
	pods.Wait()
	close(stop)
	wg.Wait()
	r.nothingLeft()
}

// TestInterruptedWhileWaiting checks that the pod keeps running if Ctrl-C arrives after the first
// start, and that the command exits immediately.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.rt.Script("setup", critest.Behavior{Forever: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupt := errors.New("ended by SIGINT")
		time.AfterFunc(time.Minute, func() { cancel(interrupt) })
		begun := time.Now()
		result := r.applyWithin(ctx, withInit("Always"), testTimeout)
		if !errors.Is(result.Err, interrupt) || !strings.Contains(result.Err.Error(), "pod default/web") {
			t.Errorf("%v", result.Err)
		}
		if took := time.Since(begun); took > time.Minute+time.Second {
			t.Errorf("took %s", took)
		}
		if n := len(r.rt.Containers()); n != 1 {
			t.Errorf("%d containers", n)
		}
		r.mustDelete()
	})
}
