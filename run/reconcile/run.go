package reconcile

import (
	"context"
	"errors"
	"slices"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// RunOptions are the options of Run.
type RunOptions struct {
	ApplyOptions
	Replace bool // replace a live pod of the same name; otherwise Run fails
	Keep    bool // keep the pods after they have ended
	// ExitFrom is the container whose exit ends the run; "" if there is none.
	ExitFrom string
	// Over is called when the pod has ended and is about to be removed; it may be nil.
	Over func()
	// Hurry is closed when this process will soon be killed. podrun then gives the containers that
	// it is stopping only hurryGrace before it kills them. Hurry may be nil.
	Hurry <-chan struct{}
	// Started is called for each container that starts, with a channel that is closed when the
	// container has exited. The function that it returns waits until the container's log has been
	// read. Run calls this function before it removes the pod.
	Started func(Log, <-chan struct{}) (drained func())
}

// ErrRunOver ends the context of a run's pods when the container that RunOptions.ExitFrom names has
// exited.
var ErrRunOver = errors.New("the run has ended")

// Run runs an admitted pod to completion and removes it, unless o.Keep is set. The error of the result
// joins the pod's error and the error of the removal.
func (w *Worker) Run(ctx context.Context, t prepare.Target, o RunOptions) Result {
	w.loop.logs.startReading = o.Started
	w.loop.policy = runPolicy(w.objects)
	w.loop.endsWith = o.ExitFrom
	w.stop.Hurry = o.Hurry
	w.pod.RemovedAtEnd = !o.Keep
	result := w.Apply(ctx, t, o.ApplyOptions)
	if context.Cause(ctx) == ErrRunOver && errors.Is(result.Err, ErrRunOver) {
		result.Outcome = OutcomeStopped
		result.Err = nil
	}
	result.Containers = lifecycle.EndedContainers(w.pod.Spec(), result.Status)
	if o.Over != nil {
		o.Over()
	}
	err := w.finish(ctx, &result, o)
	// This is necessary if another command now owns the pod.
	w.loop.logs.allExited()
	w.loop.logs.drain()
	if err != nil {
		result.Err = errors.Join(result.Err, leftBehind(w.pod.Plan.ID, err))
	}
	return result
}

// finish removes the pod. If o.Keep is set, it keeps the pod, and stops it if the exit of one
// container ended the run.
func (w *Worker) finish(ctx context.Context, result *Result, o RunOptions) error {
	stop := o.ExitFrom != "" && result.Err == nil
	if !o.Keep {
		return w.stopAndRemove(ctx, result, stop)
	}
	if !stop {
		return nil
	}
	ctx, cancel := wait.CleanupContext(ctx, lease.UndoTimeout+w.pod.GracePeriod())
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

// stopAndRemove stops the remaining containers, waits until their logs have been read, and removes the pod. It uses
// a separate context. If all is true, the result also describes the exits of the containers that stopAndRemove
// stopped.
func (w *Worker) stopAndRemove(ctx context.Context, result *Result, all bool) error {
	ctx, cancel := wait.CleanupContext(ctx, lease.UndoTimeout+w.pod.GracePeriod())
	defer cancel()
	if w.lease.Lock.Held == nil {
		if _, err := w.lease.Lock.Take(ctx); err != nil {
			return err
		}
	}
	if left, err := w.ownedByOther(ctx); left || err != nil {
		return err
	}
	w.lease.Ending = true
	w.stop.Removes = true
	w.lease.Lock.Removal = true
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

// ownedByOther reports whether another command now owns the pod of a completed run, or the pod no longer
// exists. If another command has taken over the pod, ownedByOther waits for that command, because no other
// process would remove the pod if that command failed.
func (w *Worker) ownedByOther(ctx context.Context) (bool, error) {
	if w.lease.Lock.Owned() || w.lease.Lock.Incarnation == "" {
		return false, nil
	}
	for waited := false; ; waited = true {
		r, err := w.lease.Lock.Owner()
		switch {
		case err != nil || r == nil:
			return true, err
		case r.Incarnation != w.lease.Lock.Incarnation:
			if r.UID == w.pod.Plan.ID.UID {
				w.warnTakenOver(r)
			}
			return true, nil
		case !w.lease.Lock.Live(r):
			if !waited {
				return false, nil
			}
			return w.startedByOther(ctx, r)
		case !r.Operates():
			w.warnTakenOver(r)
			return true, nil
		}
		w.lease.Lock.Unlock()
		if err := w.lease.Lock.AwaitEnd(ctx, r); err != nil {
			return false, err
		}
		if _, err := w.lease.Lock.Take(ctx); err != nil {
			return false, err
		}
	}
}

// startedByOther reports whether the pod is running because its last owner, whose process has ended, applied
// or started it.
func (w *Worker) startedByOther(ctx context.Context, r *store.OwnerRecord) (bool, error) {
	if r.Origin != nil && r.Origin.Command == store.OriginRun {
		return false, nil
	}
	if err := w.pod.Observe(ctx); err != nil {
		return false, err
	}
	running := slices.ContainsFunc(w.pod.Observed.Containers, func(c lifecycle.Container) bool { return c.State == lifecycle.Running })
	if running {
		w.warnTakenOver(r)
	}
	return running, nil
}

// warnTakenOver warns that the pod remains on this host because another command took it over.
func (w *Worker) warnTakenOver(r *store.OwnerRecord) {
	w.pod.Node.SendWarnings(problem.List{{
		Object:  "pod " + w.pod.Plan.ID.String(),
		Warning: true,
		Message: "podrun does not remove the pod: " + r.Shown() + " took it over",
	}})
}
