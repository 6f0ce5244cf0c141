package ownership

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/test/engine/rig"
	"github.com/podrun/podrun/test/ring"
)

// pairPod contains everything for which commands may wait: a slow init container, a hook, an image
// to pull, and a container that terminates slowly. podrun creates an init container and an app
// container before their turn.
var pairPod = pairPodOf("Always")

func pairPodOf(policy string) string {
	return rig.PodText("web", policy, "terminationGracePeriodSeconds: 5", "initContainers:",
		"- {name: setup, image: registry.example/setup:1}",
		"- {name: more, image: registry.example/setup:1}",
		"containers:",
		"- {name: early, image: registry.example/web:1}",
		"- {name: app, image: registry.example/far:1, lifecycle: {postStart: {exec: {command: [x]}}, preStop: {exec: {command: [x]}}}}",
		"- {name: last, image: registry.example/app:1}")
}

// pairCommand is one of two commands that act on a pod at the same time.
type pairCommand struct {
	name string
	// onPod means that the command requires an existing pod.
	onPod bool
	// wants is the state that the pod must have after the command has succeeded, unless another
	// command has changed the pod since.
	wants pairState
	do    func(ctx context.Context, r *rig.Host) error
}

// pairState is the state in which a command leaves a pod.
type pairState string

const (
	pairRuns    pairState = "runs"
	pairStopped pairState = "stopped"
	pairGone    pairState = "gone"
)

func applyOf(text string, force bool) func(context.Context, *rig.Host) error {
	return func(ctx context.Context, r *rig.Host) error {
		results, err := run.ApplyPods(ctx, r.Engine(), rig.Load(r.T, text), run.ApplyOptions{Timeout: rig.Timeout, AllowKubelet: true, Force: force})
		if err != nil {
			return err
		}
		return results[0].Err
	}
}

// onKnown calls do with the pod if it exists.
func onKnown(do func(context.Context, *run.Node, []run.Known) (run.Result, error)) func(context.Context, *rig.Host) error {
	return func(ctx context.Context, r *rig.Host) error {
		e := r.Engine()
		known, err := lookup.Find(ctx, e, lookup.Selector{})
		if err != nil || len(known) == 0 {
			return err
		}
		result, err := do(ctx, e, known)
		return errors.Join(err, result.Err)
	}
}

// pairCommands returns the commands on a pod with the given restart policy.
func pairCommands(policy string) []pairCommand {
	pairPod := pairPodOf(policy)
	return []pairCommand{
		{"apply", false, pairRuns, applyOf(pairPod, false)},
		{"apply updated", false, pairRuns, applyOf(strings.Replace(pairPod, "registry.example/app:1", "registry.example/app:2", 1), false)},
		{"apply replaced", false, pairRuns, applyOf(strings.Replace(pairPod, "name: last", "args: [x], name: last", 1), false)},
		{"restart", true, pairRuns, applyOf(pairPod, true)},
		{"delete", true, pairGone, onKnown(func(ctx context.Context, e *run.Node, known []run.Known) (run.Result, error) {
			results, err := run.DeletePods(ctx, e, known, run.DeleteOptions{})
			if err != nil {
				return run.Result{}, err
			}
			return results[0], nil
		})},
		{"stop", true, pairStopped, onKnown(func(ctx context.Context, e *run.Node, known []run.Known) (run.Result, error) {
			return run.StopPods(ctx, e, known, run.DeleteOptions{})[0], nil
		})},
		{"wait", true, "", onKnown(func(ctx context.Context, e *run.Node, known []run.Known) (run.Result, error) {
			return run.Wait(ctx, e, known[0], run.WaitOptions{For: lifecycle.GoalStarted, Timeout: rig.Timeout}), nil
		})},
	}
}

// pairCell is one interleaving: the first command is delayed in one of its calls while the second
// one runs, and one of them may be interrupted.
type pairCell struct {
	first, second pairCommand
	at            rig.Step
	// which command is interrupted: "first", "second", or "" for none
	interrupt string
	policy    string // the pod's restart policy
	onPod     bool   // true if the pod exists before the commands run
}

func (c pairCell) String() string {
	return fmt.Sprintf("%s at %s %d|%s|interrupt %s|pod here %v|%s", c.first.name, c.at.Method, c.at.N, c.second.name, c.interrupt, c.onPod, c.policy)
}

// pairRig returns a host for a pair of commands. The pod exists if onPod is set.
func pairRig(t *testing.T, policy string, onPod bool) *rig.Host {
	r := rig.New(t)
	// Real cgroups would take most of the test's time.
	r.Settings.CgroupsPerQOS = false
	r.Runtime.Script("setup", critest.Behavior{After: 10 * time.Second})
	r.Runtime.Script("more", critest.Behavior{})
	r.Runtime.AddRemote(critest.Image{Name: "registry.example/far:1", Entrypoint: []string{"/server"}})
	r.Runtime.ScriptExec("app", func([]string) *critest.Exec { return &critest.Exec{After: 2 * time.Second} })
	if onPod {
		r.MustApply(pairPodOf(policy), run.OutcomeCreated)
		r.Runtime.ForgetCalls()
	}
	return r
}

// pairSteps lists the calls that a command makes if it runs alone.
func pairSteps(t *testing.T, c pairCommand, policy string, onPod bool) []rig.Step {
	var out []rig.Step
	synctest.Test(t, func(t *testing.T) {
		r := pairRig(t, policy, onPod)
		if err := c.do(t.Context(), r); err != nil {
			t.Fatalf("%s alone: %v", c.name, err)
		}
		seen := map[string]int{}
		for _, call := range r.Runtime.Calls() {
			at := rig.Step{Method: call.Method, N: seen[call.Method]}
			// While a command waits, it polls.
			if seen[call.Method]++; !at.Reads() || at.N < 6 {
				out = append(out, at)
			}
		}
		r.MustDelete()
	})
	return out
}

// TestPairs runs pairs of commands on one pod. It delays the first command, in each of its calls,
// for longer than the second command waits. Either no command, the first one, or the second one is
// interrupted. A model of the expected state checks the pod from outside. In ring 3, it
// tries all interleavings (about 7,000); otherwise one in pairSample.
func TestPairs(t *testing.T) {
	t.Parallel()
	tried, all := 0, ring.Is(3)
	for _, cell := range pairCells(t) {
		if tried++; !all && tried%pairSample != 0 {
			continue
		}
		t.Run(cell.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { tryPair(t, cell) })
		})
	}
	t.Logf("%d interleavings", tried)
}

func pairCells(t *testing.T) (all []pairCell) {
	for _, policy := range []string{"Always", "Never"} {
		for _, first := range pairCommands(policy) {
			for _, onPod := range []bool{false, true} {
				if first.onPod && !onPod || policy == "Never" && !(onPod && first.updates()) {
					continue
				}
				for _, at := range pairSteps(t, first, policy, onPod) {
					for _, second := range pairCommands(policy) {
						if policy == "Never" && second.wants == pairStopped {
							// The containers of this pod are never restarted.
							continue
						}
						for _, interrupt := range []string{"", "first", "second"} {
							all = append(all, pairCell{first, second, at, interrupt, policy, onPod})
						}
					}
				}
			}
		}
	}
	return all
}

// updates reports whether the command kills a container to restart it with another image. If the
// restart policy does not restart containers that exit with 0, the killed container is
// indistinguishable from a completed one.
func (c pairCommand) updates() bool { return c.name == "apply updated" }

// pairSample is a prime, so that the sample includes all commands and calls.
const pairSample = 97

// pairEnd is the result of a command, and the time of its exit.
type pairEnd struct {
	err  error
	when time.Time
}

func tryPair(t *testing.T, c pairCell) {
	r := pairRig(t, c.policy, c.onPod)
	clear := r.Runtime.Fault(c.at.Method, critest.Fault{When: critest.Slow, Delay: 90 * time.Second, Skip: c.at.N, Times: 1})
	run := func(command pairCommand) (context.CancelCauseFunc, chan pairEnd) {
		ctx, cancel := context.WithCancelCause(t.Context())
		end := make(chan pairEnd, 1)
		go func() {
			err := command.do(ctx, r)
			end <- pairEnd{err, time.Now()}
		}()
		return cancel, end
	}
	begun := time.Now()
	cancelFirst, firstEnd := run(c.first)
	defer cancelFirst(nil)
	// The command may never make that call, so the wait is limited.
	for i := 0; r.CallsTo(c.at.Method) <= c.at.N && i < 300; i++ {
		time.Sleep(100 * time.Millisecond)
	}
	cancelSecond, secondEnd := run(c.second)
	defer cancelSecond(nil)
	time.Sleep(3 * time.Second)
	switch c.interrupt {
	case "first":
		cancelFirst(rig.ErrInterrupted)
	case "second":
		cancelSecond(rig.ErrInterrupted)
	}
	first, second := <-firstEnd, <-secondEnd
	clear()
	if took := time.Since(begun); took > rig.Timeout+2*time.Minute {
		t.Errorf("took %s", took)
	}
	// After this time, the runtime has completed its late calls.
	time.Sleep(2 * time.Minute)
	t.Logf("%v", r.Reasons())
	t.Logf("first: %v (after %s)\nsecond: %v (after %s)", first.err, first.when.Sub(begun), second.err, second.when.Sub(begun))
	c.check(t, r, first, second)
	r.NoLockHeld()
	if err := applyOf(pairPodOf(c.policy), false)(t.Context(), r); err != nil {
		t.Errorf("apply afterwards: %v", err)
	}
	if state := stateOf(r); state != pairRuns {
		t.Errorf("after another apply the pod is %s", state)
	}
	r.MustDelete()
}

// stateOf determines the state of the pod independently of podrun: it reads only from the
// runtime.
func stateOf(r *rig.Host) pairState {
	ready := 0
	for _, sb := range r.Runtime.Sandboxes() {
		if sb.Ready {
			ready++
		}
	}
	if ready > 1 {
		r.T.Errorf("%d sandboxes are ready", ready)
	}
	running := 0
	for _, name := range []string{"app", "last"} {
		n := 0
		for _, c := range r.Runtime.Containers() {
			if c.Name == name && c.State == 1 {
				n++
			}
		}
		if n > 1 {
			r.T.Errorf("%d containers %s run", n, name)
		}
		running += min(n, 1)
	}
	switch {
	case len(r.Runtime.Sandboxes()) == 0 && running == 0:
		return pairGone
	case running == 2 && ready == 1:
		return pairRuns
	case running == 0:
		return pairStopped
	}
	return "half"
}

// check compares the state of the pod with the results of the commands.
func (c pairCell) check(t *testing.T, r *rig.Host, first, second pairEnd) {
	t.Helper()
	for i, end := range []pairEnd{first, second} {
		if command := []pairCommand{c.first, c.second}[i]; end.err != nil && !errors.Is(end.err, rig.ErrInterrupted) && !c.mayFail(end.err) {
			t.Errorf("%s: %v", command.name, end.err)
		}
	}
	if first.err != nil && second.err != nil {
		if errors.Is(first.err, rig.ErrInterrupted) || errors.Is(second.err, rig.ErrInterrupted) {
			// One command was interrupted, and the other one had yielded to it.
			return
		}
		t.Error("both failed")
	}
	var want []pairState
	for i, end := range []pairEnd{first, second} {
		if command := []pairCommand{c.first, c.second}[i]; end.err == nil && command.wants != "" {
			want = append(want, command.wants)
		}
	}
	state := stateOf(r)
	switch {
	case len(want) == 0:
	case len(want) == 1 && (c.interrupt == "" || !c.interruptedEnds()):
		// A stop that did not find the pod did not change its state.
		if state != want[0] && (c.onPod || want[0] == pairRuns) {
			t.Errorf("the pod is %s, want %s", state, want[0])
		}
	case len(want) == 2:
		if state != want[0] && state != want[1] {
			t.Errorf("the pod is %s, want one of %s", state, want)
		}
	}
}

// interruptedEnds reports whether the interrupted command may have ended the pod.
func (c pairCell) interruptedEnds() bool {
	command := c.first
	if c.interrupt == "second" {
		command = c.second
	}
	return command.wants != pairRuns || command.name == "restart" || command.name == "apply replaced" || command.updates()
}

// mayFail reports whether an error is permitted because the other command had precedence.
func (c pairCell) mayFail(err error) bool {
	if c.at.Method == "Version" && strings.Contains(err.Error(), "no answer within 5s") || errors.Is(err, rig.ErrInterrupted) || strings.Contains(err.Error(), "Canceled") {
		// The command was delayed or interrupted before it reached the pod.
		return true
	}
	if rig.KindOf(err) != problem.Failed {
		return false
	}
	for _, words := range []string{"was deleted by", "was stopped by", "was changed by", "its removal by", "its checkpoint was not found"} {
		if strings.Contains(err.Error(), words) {
			return true
		}
	}
	return false
}
