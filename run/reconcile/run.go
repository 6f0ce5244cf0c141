package reconcile

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/stop"
)

// RunOptions are the options of Run.
type RunOptions struct {
	ApplyOptions
	Replace bool // a live pod of the same name goes first, instead of being refused
	Keep    bool // leave the pods when they have ended
	// ExitFrom is the container whose end ends the run; "" for none.
	ExitFrom string
	// Over is called when the pod has come to its end and is about to be removed; nil
	// for not.
	Over func()
	// Hurry is closed when this process is about to be killed: containers that are
	// being stopped are killed after hurryGrace. Nil is never.
	Hurry <-chan struct{}
	// Started is called for each container that starts, with a channel that is
	// closed when it has ended. What it returns is called before the pod is
	// removed, and waits until the container's log was read.
	Started func(Log, <-chan struct{}) (drained func())
}

// RunResult is how a pod has ended that was run to completion.
type RunResult struct{ Result }

// ErrRunOver ends the context of the pods of a run that is over because the container
// of RunOptions.ExitFrom has ended.
var ErrRunOver = errors.New("the run is over")

// Run brings an admitted pod to its end and removes it, unless o.Keep. The
// result's error has that of the pod and that of its removal.
func (w *Worker) Run(ctx context.Context, t prepare.Target, o RunOptions) RunResult {
	w.loop.logs.open, w.loop.policy, w.stop.Hurry, w.loop.endsWith, w.pod.RemovedAtEnd = o.Started, runPolicy(w.objects), o.Hurry, o.ExitFrom, !o.Keep
	result := RunResult{Result: w.Apply(ctx, t, o.ApplyOptions)}
	if context.Cause(ctx) == ErrRunOver && errors.Is(result.Err, ErrRunOver) {
		result.Outcome, result.Err = OutcomeStopped, nil
	}
	result.Containers = lifecycle.EndedContainers(w.pod.Spec(), result.Status)
	if o.Over != nil {
		o.Over()
	}
	err := w.end(ctx, &result, o)
	w.loop.logs.allExited() // where the pod was left to another command
	w.loop.logs.drain()
	if err != nil {
		result.Err = errors.Join(result.Err, leftBehind(w.pod.Plan.ID, err))
	}
	return result
}

// end removes the pod; one that is kept it stops, where the end of one container was the
// pod's.
func (w *Worker) end(ctx context.Context, result *RunResult, o RunOptions) error {
	stop := o.ExitFrom != "" && result.Err == nil
	if !o.Keep {
		return w.runOver(ctx, result, stop)
	}
	if !stop {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.UndoTimeout+w.pod.GracePeriod())
	defer cancel()
	if w.lease.Lock.Held == nil {
		if _, err := w.lease.Lock.Take(ctx); err != nil {
			return err
		}
	}
	if err := w.pod.OpenJournal(); err != nil {
		return err
	}
	defer w.pod.Journal.Close()
	err := w.Stop(ctx, nil)
	result.Containers = lifecycle.EndedContainers(w.pod.Spec(), w.pod.Status())
	return err
}

// runOver stops the remaining containers, with a separate context, waits for the logs and
// removes the pod. All means that the result includes the exits of containers that it
// stopped.
func (w *Worker) runOver(ctx context.Context, result *RunResult, all bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lease.UndoTimeout+w.pod.GracePeriod())
	defer cancel()
	if w.lease.Lock.Held == nil {
		if _, err := w.lease.Lock.Take(ctx); err != nil {
			return err
		}
	}
	if left, err := w.leftToOther(ctx); left || err != nil {
		return err
	}
	w.lease.Ending, w.stop.Removes, w.lease.Lock.Removal = true, true, true
	err := w.remove.Owned(ctx, stop.RemoveOptions{Stopped: func() {
		status := w.pod.Status()
		if len(result.Containers) == 0 {
			result.Status = status
		}
		if len(result.Containers) == 0 || all {
			result.Containers = lifecycle.EndedContainers(w.pod.Spec(), status)
		}
		w.loop.logs.allExited()
		w.loop.logs.drain()
	}})
	if err == nil {
		w.lease.Lock.Forget()
	}
	return err
}

// leftToOther reports whether another command owns the pod of a run that is over, or
// has removed it.
func (w *Worker) leftToOther(ctx context.Context) (bool, error) {
	if w.lease.Lock.Owned() || w.lease.Lock.Incarnation == "" {
		return false, nil
	}
	r, err := w.lease.Lock.Owner()
	if err != nil || r == nil || r.Incarnation != w.lease.Lock.Incarnation {
		return true, err
	}
	if !w.lease.Lock.Live(r) {
		return false, nil
	}
	w.pod.Node.SendWarnings(problem.List{{Object: "pod " + w.pod.Plan.ID.String(), Warning: true, Message: "podrun does not remove the pod: " + r.Shown() + " has taken it over"}})
	return true, nil
}
