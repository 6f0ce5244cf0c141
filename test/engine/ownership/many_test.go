package ownership

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
	"github.com/podrun/podrun/test/engine/rig"
)

// endCommands are the commands that end a pod, with the error that they cause in an apply of the pod.
var endCommands = map[string]func(r *rig.Host) error{
	"was deleted by process": func(r *rig.Host) error {
		results, err := run.DeletePods(r.T.Context(), r.Engine(), r.Known(), run.DeleteOptions{})
		return rig.ErrorOf(results, err)
	},
	"was stopped by process": func(r *rig.Host) error {
		return rig.ErrorOf(run.StopPods(r.T.Context(), r.Engine(), r.Known(), run.DeleteOptions{}), nil)
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
		"an init container": {rig.WebWithInit("Always"), forever, "StartContainer setup"},
		"a back-off":        {rig.WebWithInit("Always"), critest.Behavior{ExitCode: 1}, "StartContainer setup"},
		"an init container, after a startup probe": {rig.PodText("web", "Always", "initContainers:",
			"- {name: side, image: registry.example/web:1, restartPolicy: Always, startupProbe: {exec: {command: [x]}, periodSeconds: 1}}",
			"- {name: setup, image: registry.example/setup:1}", "containers: [{name: app, image: registry.example/app:1}]"), forever, "StartContainer setup"},
		"a pull":                      {rig.PodText("web", "Always", far), forever, "PullImage registry.example/far:1"},
		"the pull of an image volume": {rig.PodText("web", "Always", "volumes: [{name: data, image: {reference: registry.example/far:1}}]", mounted), forever, "PullImage registry.example/far:1"},
		"a postStart hook":            {rig.PodText("web", "Always", rig.WithPostStart), forever, "ExecSync app"},
	} {
		for reported, end := range endCommands {
			t.Run(name+" "+reported, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := rig.New(t, critest.Version("containerd", "v2.1.4"))
					r.Runtime.AddRemote(critest.Image{Name: "registry.example/far:1", PullDelay: time.Hour})
					r.Runtime.Script("setup", wait.setup)
					r.Runtime.ScriptExec("side", func([]string) *critest.Exec { return &critest.Exec{} })
					r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 100 * time.Hour} })
					_, applied := r.ApplyLater(wait.text, 5*time.Hour)
					time.Sleep(time.Minute)
					if !slices.Contains(r.Runtime.Changes(), wait.call) {
						t.Fatalf("the apply does not wait for %s: %q", name, r.Runtime.Changes())
					}
					known, begun := r.Known(), time.Now()
					r.Runtime.ForgetCalls()
					if err := end(r); err != nil {
						t.Error(err)
					}
					rig.WantErr(t, (<-applied).Err, problem.Failed, "pod default/web", reported)
					if took := time.Since(begun); took > 2*time.Second {
						t.Errorf("took %s", took)
					}
					if calls := r.Runtime.CallNames("StartContainer", "ExecSync"); len(calls) > 0 || r.Emitted("FailedPostStartHook app", "") {
						t.Errorf("calls %q, events %q", calls, r.Reasons())
					}
					if reported == "was stopped by process" {
						rig.WantErr(t, run.Wait(t.Context(), r.Engine(), known[0], run.WaitOptions{For: lifecycle.GoalReady}).Err, problem.Failed, reported)
					}
					time.Sleep(2 * time.Hour)
					if calls := r.Runtime.CallNames("StartContainer", "ExecSync"); len(calls) > 0 {
						t.Errorf("calls %q after the end", calls)
					}
					r.Delete(run.DeleteOptions{})
					r.NothingLeft()
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
				r := rig.New(t)
				r.Runtime.Script("setup", critest.Behavior{After: 5 * time.Minute})
				time.AfterFunc(time.Minute, func() {
					for _, method := range []string{"ContainerStatus", "ListContainers", "ListPodSandbox", "PodSandboxStatus"} {
						time.AfterFunc(tc.outage, r.Runtime.Fault(method, critest.Fault{When: critest.Before}))
					}
				})
				result := r.Apply(rig.WebWithInit("Always"))
				if tc.ok && result.Err != nil {
					t.Error(result.Err)
				}
				if !tc.ok {
					rig.WantErr(t, result.Err, problem.Runtime, "pod default/web", "init container setup has not finished")
				}
				time.Sleep(10 * time.Minute)
				r.MustDelete()
			})
		})
	}
}

// TestApplyWhileApplyWaits covers a new version of a pod that replaces the pod for which
// another apply waits.
func TestApplyWhileApplyWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("setup", critest.Behavior{Forever: true}, critest.Behavior{})
		done := make(chan run.Result)
		go func() { done <- r.Apply(rig.WebWithInit("Always")) }()
		time.Sleep(time.Minute)
		r.MustApply(strings.Replace(rig.WebWithInit("Always"), "registry.example/app:1", "registry.example/app:1, args: [x]", 1), run.OutcomeReplaced)
		rig.WantErr(t, (<-done).Err, problem.Failed, "was deleted by process")
		if n := len(r.Runtime.Sandboxes()); n != 1 {
			t.Errorf("%d sandboxes", n)
		}
		r.MustDelete()
	})
}

// TestApplySamePodAtOnce checks that one of several commands that concurrently apply a pod creates
// the pod, and that the others find it.
func TestApplySamePodAtOnce(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"no init": 0, "init takes a minute": time.Minute} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rig.New(t)
				text := rig.Web("Always")
				if after > 0 {
					text = rig.WebWithInit("Always")
					r.Runtime.Script("setup", critest.Behavior{After: after})
				}
				results := make([]run.Result, 5)
				var wg sync.WaitGroup
				for i := range results {
					wg.Go(func() { results[i] = r.Apply(text) })
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
					if n := rig.Count(r.Runtime.Changes(), call); n != 1 {
						t.Errorf("%s %d times", call, n)
					}
				}
				if told := slices.ContainsFunc(r.Warnings(), func(w string) bool { return strings.HasPrefix(w, "waiting for process ") }); told && after == 0 {
					t.Errorf("a wait of no duration is reported: %q", r.Warnings())
				}
				r.MustDelete()
			})
		})
	}
}

// someText returns the manifest of a pod whose name contains the number.
func someText(i int) string {
	return rig.PodText(fmt.Sprintf("pod-%d", i), "Always", "initContainers: [{name: setup, image: registry.example/setup:1}]",
		"containers: [{name: app, image: registry.example/app:1}, {name: web, image: registry.example/web:1}]")
}

func TestTwentyPodsAtOnce(t *testing.T) {
	t.Parallel()
	t.Run("in one command", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := rig.New(t)
			r.Runtime.Script("setup", critest.Behavior{After: time.Second})
			var texts []string
			for i := range 20 {
				texts = append(texts, someText(i))
			}
			begun := time.Now()
			results, err := r.ApplyAll(t.Context(), texts...)
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
		r := rig.New(t)
		r.Runtime.Script("setup", critest.Behavior{After: 10 * time.Millisecond})
		results := make([]run.Result, 20)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() { results[i] = r.Apply(someText(i)) })
		}
		wg.Wait()
		checkTwenty(t, r, results)
	})
}

func checkTwenty(t *testing.T, r *rig.Host, results []run.Result) {
	t.Helper()
	ips := map[string]bool{}
	for i, result := range results {
		if result.Err != nil || result.Outcome != run.OutcomeCreated || result.ID.Name != fmt.Sprintf("pod-%d", i) {
			t.Errorf("%s: %s, %v", result.ID, result.Outcome, result.Err)
		}
		ips[result.Status.PodIP] = true
	}
	if len(ips) != 20 || len(r.Runtime.Containers()) != 60 {
		t.Errorf("%d addresses, %d containers", len(ips), len(r.Runtime.Containers()))
	}
	r.MustDelete()
}

// TestGetWhilePodsComeAndGo checks that get returns no error for a pod that is removed after it
// was listed.
func TestGetWhilePodsComeAndGo(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	r.Runtime.Script("setup", critest.Behavior{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			e := r.Engine()
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
				if result := r.Apply(someText(i)); result.Err != nil {
					t.Error(result.Err)
				}
				r.Delete(run.DeleteOptions{}, fmt.Sprintf("pod-%d", i))
			}
		})
	}
	pods.Wait()
	close(stop)
	wg.Wait()
	r.NothingLeft()
}

// TestInterruptedWhileWaiting checks that the pod keeps running if Ctrl-C arrives after the first
// start, and that the command exits immediately.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := rig.New(t)
		r.Runtime.Script("setup", critest.Behavior{Forever: true})
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupt := errors.New("ended by SIGINT")
		time.AfterFunc(time.Minute, func() { cancel(interrupt) })
		begun := time.Now()
		result := r.ApplyWithin(ctx, rig.WebWithInit("Always"), rig.Timeout)
		if !errors.Is(result.Err, interrupt) || !strings.Contains(result.Err.Error(), "pod default/web") {
			t.Errorf("%v", result.Err)
		}
		if took := time.Since(begun); took > time.Minute+time.Second {
			t.Errorf("took %s", took)
		}
		if n := len(r.Runtime.Containers()); n != 1 {
			t.Errorf("%d containers", n)
		}
		r.MustDelete()
	})
}
