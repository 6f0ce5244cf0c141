package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/start"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// loop works on one pod until the pod reaches a goal: it observes the pod, asks lifecycle.Next for
// actions, executes them, and repeats. It knows the pod's state only from the runtime.
type loop struct {
	pod     *pod.Pod
	lease   *lease.Lease
	stop    *stop.Stopper
	start   *start.Starter
	probing *probes
	retries retries
	policy  policy
	waiter  waiter
	goal    lifecycle.Goal
	// endsWith is the container whose exit ends the pod; it is "" if there is none
	// (RunOptions.ExitFrom).
	endsWith string
	begun    time.Time       // when the worker began to work on the pod
	acted    bool            // true if the loop has executed an action on the pod
	mine     map[string]bool // IDs of the containers that this process started
	overdue  bool            // true if the loop has reported that the pod exceeded activeDeadlineSeconds
	// reportedBackOff contains the IDs of containers whose back-off podrun has already reported.
	reportedBackOff map[string]bool
	logs            logStreams
	// corrupt becomes true when the pod's checkpoint is found to be corrupt. The pointer may be
	// nil (Supervision.Corrupt).
	corrupt *atomic.Bool
	watch   *updateWatch // nil if the worker does not judge updates
	// the last error of a supervised pod that podrun reported
	reportedError string
	// the last state of the pod that was announced
	announced string
}

// until works on the pod until the pod reaches the goal, the pod has ended, or an error occurs. It
// reports whether the pod has ended. While another command owns the pod, it only observes the pod.
func (l *loop) until(ctx context.Context, goal lifecycle.Goal) (ended bool, err error) {
	if l.pod.Plan.Checkpoint.SecretsLost && !lifecycle.Next(l.pod.Spec(), l.pod.World()).Ended {
		return false, store.LostSecrets(l.pod.Plan.ID)
	}
	l.goal = goal
	l.start.Hooks.EndDecides = goal == lifecycle.GoalCompleted
	if l.begun.IsZero() {
		l.begun = time.Now()
	}
	l.probing.startProbing()
	defer func() {
		err = errors.Join(err, l.probing.stopProbing())
		l.logs.exited(l.pod.Observed)
	}()
	for {
		l.lease.Pace.Progress.Act()
		l.logs.exited(l.pod.Observed)
		l.announce()
		if cause := context.Cause(ctx); cause != nil {
			return false, cause
		}
		owns, err := l.ensureOwned(ctx)
		if errors.Is(err, store.ErrChanged) {
			continue
		} else if err != nil {
			return false, err
		}
		if owns {
			l.restoreCheckpoint()
		}
		if owns && l.lease.RuntimeUnavailable() {
			l.watch.pause()
			if err := l.awaitRuntime(ctx); err != nil {
				return false, l.waitError(ctx, err, l.unreached(goal))
			}
			continue
		}
		d, did, err := l.step(ctx, owns)
		l.announce()
		if errors.Is(err, store.ErrChanged) {
			continue
		}
		if l.policy.retry && (err != nil || len(l.start.Failures) > 0) {
			err, d.Ended = l.retryLater(ctx, err), false
		}
		switch {
		case err != nil:
			return false, err
		case len(l.start.Failures) > 0:
			return false, errors.Join(l.start.Failures...)
		}
		if owns {
			if err := l.watch.judge(ctx, &d); err != nil {
				return false, err
			}
		}
		holds, err := l.holds(ctx, goal, owns, &d)
		switch {
		case err != nil:
			return false, l.waitError(ctx, err, l.unreached(goal))
		case holds:
			return false, nil
		case d.Ended:
			return true, nil
		case did:
			continue
		}
		if err := l.await(ctx, d, owns); err != nil {
			return false, l.waitError(ctx, err, l.unreached(goal))
		}
	}
}

// step decides which actions the pod requires, and executes them if this command owns the pod. The
// result did reports whether step executed an action.
func (l *loop) step(ctx context.Context, owns bool) (d lifecycle.Decision, did bool, err error) {
	if owns {
		if err := l.stop.Finish(ctx); err != nil {
			return d, false, err
		}
		if err := l.resumeAfterShutdown(); err != nil {
			return d, false, err
		}
		if err := l.probing.keepProbed(false); err != nil {
			return d, false, err
		}
	}
	world := l.pod.World()
	world.CreatedAhead = l.start.Ahead.ID()
	world.Ephemeral = l.ephemeral()
	world.DebugOnly = l.goal.Debugs() != ""
	d = lifecycle.Next(l.pod.Spec(), world)
	if owns && d.Overdue && !l.overdue {
		l.overdue = true
		l.pod.Emit(event.Normal, lifecycle.ReasonDeadlineExceeded, "", lifecycle.MessageDeadlineExceeded)
	}
	if owns {
		did, err = l.execute(ctx, d.Actions)
		d.Ended = d.Ended && (did || len(d.Actions) == 0)
	}
	if err == nil && owns && l.lease.Lock.Held != nil && l.lease.Lock.Owned() {
		err = l.pod.KeepStatus(l.lease.Lock.Ending)
	}
	if status := l.pod.Node.Observer.Status; status != nil && owns && !l.lease.Removed() && !l.lease.RuntimeUnavailable() {
		status(l.pod.View(observe.Known{ID: l.pod.Plan.ID, Pod: l.pod.Plan.Pod}, observe.IsStopped(l.pod.Plan.Layout, l.pod.Plan.ID.UID)))
	}
	return d, did, err
}

// announce calls the node's observer if the pod's sandbox, containers or readiness have changed.
func (l *loop) announce() {
	changed := l.pod.Node.Observer.Changed
	if changed == nil {
		return
	}
	var state strings.Builder
	for _, sb := range l.pod.Observed.Sandboxes {
		fmt.Fprintln(&state, sb.ID, sb.Ready, sb.IPs)
	}
	for _, c := range l.pod.Observed.Containers {
		fmt.Fprintln(&state, c.ID, c.State, l.pod.Observed.Probes[c.ID].Ready)
	}
	if text := state.String(); text != l.announced {
		l.announced = text
		changed(l.pod.Plan.ID)
	}
}

// ephemeral returns the names of the ephemeral containers that this operation starts.
func (l *loop) ephemeral() []string {
	switch {
	case l.goal.Debugs() != "":
		return []string{l.goal.Debugs()}
	case l.policy.ephemeral == nil:
		return nil
	}
	var names []string
	for _, c := range l.policy.ephemeral().Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	return names
}

// resumeAfterShutdown starts a pod again that podrun stopped because the node shut down
// (policy.resume).
func (l *loop) resumeAfterShutdown() error {
	stopped := l.pod.Observed.Kept
	if stopped.ShutDown.IsZero() || !l.policy.resume {
		return nil
	}
	l.pod.Observed.Kept = stopped.AfterShutdown()
	if lifecycle.Next(l.pod.Spec(), l.pod.World()).Ended {
		// The pod has ended, so it remains stopped.
		l.pod.Observed.Kept = stopped
		return nil
	}
	return l.pod.Keep(l.pod.Observed.Kept)
}

// holds reports whether a goal is reached. A readiness goal is reached only if the readiness is
// reliable: if this command owns the pod, its own probes must have confirmed the readiness, and no
// container may be in a crash loop. If a container may be in a crash loop, holds changes d so that the
// next decision is made when the container has run long enough. At that time, holds observes the pod
// again, because the runtime may report an exit late.
func (l *loop) holds(ctx context.Context, goal lifecycle.Goal, owns bool, d *lifecycle.Decision) (bool, error) {
	for {
		if !l.reached(goal) || owns && !l.confirms(goal) {
			return false, nil
		}
		u := l.unsettled(goal)
		if u == nil {
			return true, nil
		}
		if u.Until.After(time.Now()) {
			d.DecideBy(u.Until)
			return false, nil
		}
		if err := l.lease.Refresh(ctx); err != nil {
			return false, err
		}
		if l.lease.RuntimeUnavailable() {
			d.DecideBy(u.Until)
			return false, nil
		}
	}
}

// unsettled returns a container that may be in a crash loop, if the goal is that the pod is ready. Otherwise it
// returns nil.
func (l *loop) unsettled(goal lifecycle.Goal) *lifecycle.Unsettled {
	if ready, is := goal.Readiness(); !is || !ready {
		return nil
	}
	return lifecycle.FindUnsettled(l.pod.Spec(), l.pod.Observed, l.begun, time.Now())
}

// reached reports whether the pod has reached a goal according to the last observation.
func (l *loop) reached(goal lifecycle.Goal) bool {
	if name := goal.Debugs(); name != "" {
		have := l.pod.Observed.Newest(name)
		return have != nil && (have.State == lifecycle.Running || have.State == lifecycle.Exited)
	}
	switch goal {
	case lifecycle.GoalNever:
		return false
	case lifecycle.GoalCompleted:
		return l.endsWith != "" && lifecycle.ContainerEnded(l.pod.Spec(), l.pod.Observed, l.endsWith)
	case lifecycle.GoalStarted, lifecycle.GoalReady:
		done, _ := lifecycle.StartedGoal(l.pod.Spec(), l.pod.Observed, l.mine)
		if !done || goal == lifecycle.GoalStarted {
			return done
		}
	}
	return goal.ReachedBy(l.pod.Status())
}

// confirms reports whether this command itself has run the probes on whose results a readiness goal
// depends. Results that other processes have recorded may be outdated.
func (l *loop) confirms(goal lifecycle.Goal) bool {
	ready, is := goal.Readiness()
	return !is || l.probing.confirmed(ready)
}

// await waits, without the pod's lock, for the next event that requires a decision. If the command does
// not own the pod, it observes the pod again after followPoll.
func (l *loop) await(ctx context.Context, d lifecycle.Decision, owns bool) error {
	waiter := l.waiter
	if owns {
		l.forgetRemoved()
		l.probing.probe()
		l.emitBackOff(d)
		if next := l.retries.next(); !next.IsZero() && (d.Until.IsZero() || next.Before(d.Until)) {
			d.Until = next
		}
	} else {
		l.probing.pause()
		d.Until, waiter = time.Time{}, poll{l.pod, followPoll}
	}
	relist := false
	err := l.lease.Do(ctx, l.lease.Lost, func(ctx context.Context) (err error) {
		relist, err = waiter.change(ctx, d, l.probing.wake)
		return err
	})
	switch {
	case errors.Is(err, store.ErrChanged):
		// The loop makes a new decision. If await returned this error, Apply would admit the pod
		// again.
		return nil
	case err != nil || !relist:
		return err
	}
	return l.lease.Refresh(ctx)
}

// awaitRuntime waits, without the pod's lock, until the runtime may be available again. It then
// observes the pod, because earlier observations may be outdated.
func (l *loop) awaitRuntime(ctx context.Context) error {
	err := l.lease.Do(ctx, l.lease.Lost, l.waiter.runtime)
	if err != nil && !errors.Is(err, store.ErrChanged) {
		return err
	}
	return l.lease.Refresh(ctx)
}

// warnBackOff prints a warning if a command that only starts the pod waits for the back-off of a container. The
// warning contains the end of the back-off, which can take minutes and which the event does not contain, and the
// commands that the user can run instead.
func (l *loop) warnBackOff(container string, until time.Time) {
	if l.policy.retry || l.goal != lifecycle.GoalStarted || until.IsZero() {
		return
	}
	id := l.pod.Plan.ID
	l.pod.Node.SendWarnings(problem.List{{Object: "pod " + id.String(), Warning: true,
		Message: fmt.Sprintf("waiting %s for the restart back-off of container %s, which exits repeatedly", time.Until(until).Round(time.Second), container),
		Hint:    fmt.Sprintf("'podrun logs %s -n %s -c %s' shows why; 'podrun restart %s -n %s' restarts the pod immediately", id.Name, id.Namespace, container, id.Name, id.Namespace)}})
}

// emitBackOff emits an event for each container that is in back-off, once for each exit.
func (l *loop) emitBackOff(d lifecycle.Decision) {
	for _, name := range d.BackOff {
		c := l.pod.Observed.Container(name)
		if c == nil || l.reportedBackOff[c.ID] {
			continue
		}
		if l.reportedBackOff == nil {
			l.warnBackOff(name, d.Until)
			l.reportedBackOff = map[string]bool{}
		}
		l.reportedBackOff[c.ID] = true
		l.pod.Emit(event.Warning, event.BackOffStart, name,
			fmt.Sprintf("Back-off restarting failed container %s in pod %s", name, l.pod.Plan.ID.Ref()))
	}
}
