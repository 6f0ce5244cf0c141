package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/start"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// Worker brings one pod to a goal: it observes, calls lifecycle.Next, executes the
// actions, and repeats. It serves one operation on one incarnation of the pod, and is not
// safe for concurrent use. Its state is a copy of what the runtime reported.
type Worker struct {
	pod     *pod.Pod
	lease   *lease.Lease
	stop    *stop.Stopper
	remove  *stop.Remover
	start   *start.Starter
	probing *probes
	retries retries
	policy  policy
	waiter  waiter
	objects *manifest.Objects // for a command that applies: this pod and the objects that it refers to
	goal    lifecycle.Goal
	// endsWith is the container whose end is the pod's; "" for none (RunOptions.ExitFrom).
	endsWith string
	acted    bool            // something was done to the pod
	mine     map[string]bool // the containers that this worker started, by ID
	// saidBackOff are the containers whose back-off was reported, by ID.
	saidBackOff map[string]bool
	logs        logStreams
	// corrupt is set when the pod's checkpoint was found to be corrupt; nil for never
	// (Supervision.Corrupt).
	corrupt       *atomic.Bool
	reportedError string // the last one of a supervised pod
}

// until converges the pod until the goal holds, the pod has ended, or an error occurs. It
// returns whether the pod has ended. While another command owns the pod, it only
// observes.
func (w *Worker) until(ctx context.Context, goal lifecycle.Goal) (ended bool, err error) {
	if w.pod.Plan.Checkpoint.SecretsLost && !lifecycle.Next(w.pod.Spec(), w.pod.World()).Ended {
		return false, store.LostSecrets(w.pod.Plan.ID)
	}
	w.goal, w.start.Hooks.EndDecides = goal, goal == lifecycle.GoalCompleted
	w.probing.startProbing()
	defer func() {
		err = errors.Join(err, w.probing.stopProbing())
		w.logs.exited(w.pod.Observed)
	}()
	for {
		w.lease.Pace.Progress.Act()
		w.logs.exited(w.pod.Observed)
		if cause := context.Cause(ctx); cause != nil {
			return false, cause
		}
		owns, err := w.own(ctx)
		if errors.Is(err, store.ErrChanged) {
			continue
		} else if err != nil {
			return false, err
		}
		if owns {
			w.restoreCheckpoint()
		}
		if owns && w.lease.Away() {
			if err := w.awaitRuntime(ctx); err != nil {
				return false, w.waitError(ctx, err, w.missing(goal))
			}
			continue
		}
		d, did, err := w.step(ctx, owns)
		if errors.Is(err, store.ErrChanged) {
			continue
		}
		if w.policy.retry && (err != nil || len(w.start.Failures) > 0) {
			err, d.Ended = w.retryLater(ctx, err), false
		}
		switch {
		case err != nil:
			return false, err
		case len(w.start.Failures) > 0:
			return false, errors.Join(w.start.Failures...)
		case w.reached(goal) && (!owns || w.confirms(goal)):
			return false, nil
		case d.Ended:
			return true, nil
		case did:
			continue
		}
		if err := w.await(ctx, d, owns); err != nil {
			return false, w.waitError(ctx, err, w.missing(goal))
		}
	}
}

// step decides what to do about the pod, and does it if this command owns the
// pod; did reports whether it did anything.
func (w *Worker) step(ctx context.Context, owns bool) (d lifecycle.Decision, did bool, err error) {
	if owns {
		if err := w.stop.Finish(ctx); err != nil {
			return d, false, err
		}
		if err := w.resumeAfterShutdown(); err != nil {
			return d, false, err
		}
		if err := w.probing.keepProbed(false); err != nil {
			return d, false, err
		}
	}
	world := w.pod.World()
	world.Ephemeral, world.DebugOnly = w.ephemeral(), w.goal.Debugs() != ""
	d = lifecycle.Next(w.pod.Spec(), world)
	if owns {
		did, err = w.execute(ctx, d.Actions)
		d.Ended = d.Ended && (did || len(d.Actions) == 0)
	}
	if err == nil && owns && w.lease.Lock.Held != nil && w.lease.Lock.Owned() {
		err = w.pod.KeepStatus(w.lease.Lock.Ending)
	}
	return d, did, err
}

// ephemeral names the ephemeral containers that this operation starts.
func (w *Worker) ephemeral() []string {
	switch {
	case w.goal.Debugs() != "":
		return []string{w.goal.Debugs()}
	case w.policy.ephemeral == nil:
		return nil
	}
	var names []string
	for _, c := range w.policy.ephemeral().Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	return names
}

// resumeAfterShutdown makes a pod run again that was stopped because the node shut down
// (policy.resume).
func (w *Worker) resumeAfterShutdown() error {
	stopped := w.pod.Observed.Kept
	if stopped.ShutDown.IsZero() || !w.policy.resume {
		return nil
	}
	w.pod.Observed.Kept = stopped.AfterShutdown()
	if lifecycle.Next(w.pod.Spec(), w.pod.World()).Ended {
		w.pod.Observed.Kept = stopped // it ended then
		return nil
	}
	return w.pod.Keep(w.pod.Observed.Kept)
}

// reached reports whether a goal holds.
func (w *Worker) reached(goal lifecycle.Goal) bool {
	if name := goal.Debugs(); name != "" {
		have := w.pod.Observed.Newest(name)
		return have != nil && (have.State == lifecycle.Running || have.State == lifecycle.Exited)
	}
	switch goal {
	case lifecycle.GoalNever:
		return false
	case lifecycle.GoalCompleted:
		return w.endsWith != "" && lifecycle.ContainerEnded(w.pod.Spec(), w.pod.Observed, w.endsWith)
	case lifecycle.GoalStarted, lifecycle.GoalReady:
		done, _ := lifecycle.StartedGoal(w.pod.Spec(), w.pod.Observed, w.mine)
		if !done || goal == lifecycle.GoalStarted {
			return done
		}
	}
	return goal.ReachedBy(w.pod.Status())
}

// confirms reports whether this command has itself observed the facts that a goal about
// readiness depends on: other processes may not have probed the pod.
func (w *Worker) confirms(goal lifecycle.Goal) bool {
	ready, is := goal.Readiness()
	return !is || w.probing.confirmed(ready)
}

// missing explains why a goal does not hold.
func (w *Worker) missing(goal lifecycle.Goal) string {
	if name := goal.Debugs(); name != "" {
		return fmt.Sprintf("ephemeral container %s is not started", name)
	}
	switch goal {
	case lifecycle.GoalCompleted:
		return "the pod has not completed"
	case lifecycle.GoalNever:
		return "supervising the pod"
	case lifecycle.GoalStarted, lifecycle.GoalReady:
		done, waiting := lifecycle.StartedGoal(w.pod.Spec(), w.pod.Observed, w.mine)
		if !done || goal == lifecycle.GoalStarted {
			return waiting
		}
	}
	if w.reached(goal) {
		return "its readiness probes have not succeeded again"
	}
	return goal.Missing(w.pod.Status())
}

// await waits, without the pod's lock, for the next thing that Next would act
// upon. A command that does not own the pod observes it after followPoll.
func (w *Worker) await(ctx context.Context, d lifecycle.Decision, owns bool) error {
	waiter := w.waiter
	if owns {
		w.forgetRemoved()
		w.probing.probe()
		w.emitBackOff(d)
		if next := w.retries.next(); !next.IsZero() && (d.Until.IsZero() || next.Before(d.Until)) {
			d.Until = next
		}
	} else {
		w.probing.pause()
		d.Until, waiter = time.Time{}, poll{w.pod, followPoll}
	}
	relist := false
	err := w.lease.Do(ctx, w.lease.Lost, func(ctx context.Context) (err error) {
		relist, err = waiter.change(ctx, d, w.probing.wake)
		return err
	})
	switch {
	case errors.Is(err, store.ErrChanged):
		return nil // a new decision, of this same step: not another one of a command that applies
	case err != nil || !relist:
		return err
	}
	return w.lease.Refresh(ctx)
}

// awaitRuntime waits, without the pod's lock, for a runtime that does not answer. Nothing
// that was observed before is acted upon.
func (w *Worker) awaitRuntime(ctx context.Context) error {
	err := w.lease.Do(ctx, w.lease.Lost, w.waiter.runtime)
	if err != nil && !errors.Is(err, store.ErrChanged) {
		return err
	}
	return w.lease.Refresh(ctx)
}

// emitBackOff reports containers that are held back, once for each exit.
func (w *Worker) emitBackOff(d lifecycle.Decision) {
	for _, name := range d.BackOff {
		c := w.pod.Observed.Container(name)
		if c == nil || w.saidBackOff[c.ID] {
			continue
		}
		if w.saidBackOff == nil {
			w.saidBackOff = map[string]bool{}
		}
		w.saidBackOff[c.ID] = true
		w.pod.Emit(event.Warning, event.BackOffStart, name,
			fmt.Sprintf("Back-off restarting failed container %s in pod %s", name, w.pod.Plan.ID.Ref()))
	}
}
