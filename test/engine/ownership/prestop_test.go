package ownership

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/ring"
)

// The times of drainPod: the hook of app takes drainFor, and app exits drainTERM after TERM.
const (
	drainGrace = 30 * time.Second
	drainFor   = 10 * time.Second
	drainTERM  = 3 * time.Second
)

// drainPod returns a pod with a preStop hook.
func drainPod(arg string) string {
	return rig.PodText("web", "Always", "terminationGracePeriodSeconds: 30", "containers:",
		"- {name: app, image: registry.example/app:1, args: ["+arg+"], lifecycle: {preStop: {exec: {command: [drain]}}}}",
		"- {name: plain, image: registry.example/web:1}")
}

// drainCommands are the commands of the pairs, with the grace period that each gives the pod.
func drainCommands() map[string]struct {
	grace time.Duration
	ends  bool // true if the command stops the containers of an unchanged pod
	do    func(context.Context, *rig.Host) error
} {
	type command = struct {
		grace time.Duration
		ends  bool
		do    func(context.Context, *rig.Host) error
	}
	remove := func(grace *time.Duration) func(context.Context, *rig.Host) error {
		return onKnown(func(ctx context.Context, e *run.Node, known []run.Known) (run.Result, error) {
			results, err := run.DeletePods(ctx, e, known, run.DeleteOptions{Grace: grace})
			if err != nil {
				return run.Result{}, err
			}
			return results[0], nil
		})
	}
	halt := func(grace *time.Duration) func(context.Context, *rig.Host) error {
		return onKnown(func(ctx context.Context, e *run.Node, known []run.Known) (run.Result, error) {
			return run.StopPods(ctx, e, known, run.DeleteOptions{Grace: grace})[0], nil
		})
	}
	short, long := 6*time.Second, 2*time.Minute
	return map[string]command{
		"delete":          {drainGrace, true, remove(nil)},
		"delete in 6 s":   {short, true, remove(&short)},
		"delete in 2 min": {long, true, remove(&long)},
		"delete now":      {0, true, remove(new(time.Duration))},
		"stop":            {drainGrace, true, halt(nil)},
		"stop in 6 s":     {short, true, halt(&short)},
		"restart":         {drainGrace, true, applyOf(drainPod("v1"), true)},
		"apply replaced":  {drainGrace, true, applyOf(drainPod("v2"), false)},
		"apply":           {-1, false, applyOf(drainPod("v1"), false)},
		"wait": {-1, false, onKnown(func(ctx context.Context, e *run.Node, known []run.Known) (run.Result, error) {
			return run.Wait(ctx, e, known[0], run.WaitOptions{For: lifecycle.GoalStarted, Timeout: rig.Timeout}), nil
		})},
	}
}

// drainRig returns a host on which drainPod runs.
func drainRig(t *testing.T) *rig.Host {
	r := rig.New(t)
	r.Settings.CgroupsPerQOS = false
	drainScripts(r)
	r.MustApply(drainPod("v1"), run.OutcomeCreated)
	time.Sleep(time.Minute)
	r.Runtime.ForgetCalls()
	return r
}

func drainScripts(r *rig.Host) {
	r.Runtime.Script("app", critest.Behavior{Forever: true, CleanTERM: true, TERMAfter: drainTERM})
	r.Runtime.Script("plain", critest.Behavior{Forever: true, CleanTERM: true, TERMAfter: drainTERM})
	r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: drainFor} })
}

// stopTrace contains the calls that stop one container.
type stopTrace struct{ hooks, stops []critest.Call }

// drained returns the calls that stopped a container.
func drained(r *rig.Host, id string) (s stopTrace) {
	for _, c := range r.Runtime.Calls() {
		switch req := c.Request.(type) {
		case *runtimeapi.ExecSyncRequest:
			if req.GetContainerId() == id && slices.Equal(req.GetCmd(), []string{"drain"}) {
				s.hooks = append(s.hooks, c)
			}
		case *runtimeapi.StopContainerRequest:
			if req.GetContainerId() == id {
				s.stops = append(s.stops, c)
			}
		}
	}
	return s
}

// rounding is the unit of the runtime's timeouts, plus the interval at which an owner reads its record.
const rounding = time.Second + 200*time.Millisecond

// wantDrained checks a stop from outside: the hook ran at least once, to its end or to the end of the
// grace period; TERM came only after it, and KILL only after the grace period, or 2 s after TERM. The
// argument ends are the times at which the grace periods of the commands end.
func (s stopTrace) wantDrained(t *testing.T, name string, begun time.Time, ends []time.Time) {
	t.Helper()
	if len(s.stops) == 0 {
		t.Errorf("%s was not stopped", name)
		return
	}
	end := slices.MinFunc(ends, time.Time.Compare)
	first := s.stops[0]
	if name == "app" {
		done := slices.ContainsFunc(s.hooks, func(c critest.Call) bool {
			whole := c.End.Sub(c.Start) >= drainFor && c.Err == nil
			return (whole || !c.End.IsZero() && c.End.After(end.Add(-rounding))) && !c.End.After(first.Start)
		})
		// No hook runs after the end of the grace period.
		if !done && first.Start.Before(end.Add(-rounding)) {
			t.Errorf("%s: TERM after %s, but no hook had ended; the grace period ends after %s: %s", name, first.Start.Sub(begun), end.Sub(begun), traceOf(s.hooks, begun))
		}
	}
	for _, c := range s.stops {
		timeout := time.Duration(c.Request.(*runtimeapi.StopContainerRequest).GetTimeout()) * time.Second
		if kill := c.Start.Add(timeout); kill.Before(end.Add(-rounding)) {
			t.Errorf("%s: KILL after %s, before the end of the grace period after %s", name, kill.Sub(begun), end.Sub(begun))
		}
	}
}

func traceOf(calls []critest.Call, begun time.Time) string {
	var out []string
	for _, c := range calls {
		out = append(out, fmt.Sprintf("%s to %s (%v)", c.Start.Sub(begun), c.End.Sub(begun), c.Err))
	}
	return strings.Join(out, ", ")
}

// prestopSample is a prime, so that the samples include all commands and times.
const prestopSample = 7

// TestPreStopPairs runs every pair of commands on a pod with preStop hooks. The second command starts
// while the hook of the first one runs, or after it. Either no command is interrupted, or the first
// one is, like a command that is killed: then the second one runs the hook again. In
// ring 3, the test tries all pairs (320); otherwise one in prestopSample.
func TestPreStopPairs(t *testing.T) {
	t.Parallel()
	commands, tried := drainCommands(), 0
	for _, first := range slices.Sorted(maps.Keys(commands)) {
		one := commands[first]
		if !one.ends {
			continue
		}
		for _, second := range slices.Sorted(maps.Keys(commands)) {
			two := commands[second]
			for _, after := range []time.Duration{2 * time.Second, drainFor + time.Second} {
				for _, interrupted := range []bool{false, true} {
					if tried++; tried%prestopSample != 0 && !ring.Is(3) {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s after %s, interrupted %v", first, second, after, interrupted), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							r := drainRig(t)
							containers := r.Runtime.Containers()
							begun := time.Now()
							ctx, cancel := context.WithCancelCause(t.Context())
							defer cancel(nil)
							done := make(chan error, 1)
							go func() { done <- one.do(ctx, r) }()
							time.Sleep(after)
							ends := []time.Time{begun.Add(one.grace)}
							if two.grace >= 0 {
								ends = append(ends, time.Now().Add(two.grace))
							}
							if interrupted {
								// Any command may complete the stop, with the pod's grace period.
								ends = append(ends, time.Now().Add(drainGrace))
								time.AfterFunc(2*time.Second, func() { cancel(rig.ErrInterrupted) })
							}
							two2 := two.do(t.Context(), r)
							one2 := <-done
							time.Sleep(2 * time.Minute)
							t.Logf("%s: %v; %s: %v", first, one2, second, two2)
							for _, err := range []error{one2, two2} {
								if err != nil && !errors.Is(err, rig.ErrInterrupted) && !(pairCell{}).mayFail(err) {
									t.Error(err)
								}
							}
							r.NoLockHeld()
							if err := applyOf(drainPod("v1"), false)(t.Context(), r); err != nil {
								t.Errorf("apply afterwards: %v", err)
							}
							for _, c := range containers {
								drained(r, c.ID).wantDrained(t, c.Name, begun, ends)
							}
							r.MustDelete()
						})
					})
				}
			}
		}
	}
}

// TestDeleteReportsWaiting covers a delete of a pod whose containers take long to stop: it reports what it waits for.
func TestDeleteReportsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := drainRig(t)
		e := r.Engine()
		var mu sync.Mutex
		var got []string
		e.Progress = func(ev event.Event) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, ev.FieldPath+" "+ev.Message)
		}
		results, err := run.DeletePods(t.Context(), e, r.Known(), run.DeleteOptions{})
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
		const app, plain = "spec.containers{app} ", "spec.containers{plain} "
		for _, want := range []string{app + "waiting for the preStop hook, up to 28s more", app + "waiting for the container to exit, up to 19s more", app + "ended",
			plain + "waiting for the container to exit, up to 28s more", plain + "ended"} {
			if !slices.Contains(got, want) {
				t.Errorf("no %q in %q", want, got)
			}
		}
	})
}
