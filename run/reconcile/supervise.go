package reconcile

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/store"
)

// Supervision is the additional state of a worker that supervises its pod: it waits with
// a hub that all workers share, and works until its context, the pod or its ownership
// ends.
type Supervision struct {
	Hub *observe.Hub
	// OwnerChanged has something when the pod's owner may have changed; OwnerPoll is
	// how often the worker checks it in any case.
	OwnerChanged <-chan struct{}
	OwnerPoll    time.Duration
	Progress     *Progress // nil for none
	// Corrupt is set when the pod's checkpoint was found to be corrupt: the worker writes
	// it again, as it knows the definition. OwnerChanged wakes it. Nil for never.
	Corrupt *atomic.Bool
	// ResizePending is why the pod cannot be resized as its source asks; nil if it does
	// not, or it can.
	ResizePending *lifecycle.ResizePending
}

// progress is that of a supervised worker; nil for a command's.
func (w *state) progress() *Progress {
	if w.supervision == nil {
		return nil
	}
	return w.supervision.Progress
}

// ErrOwned is the error that another command works on a supervised pod.
var ErrOwned = errors.New("another command works on the pod")

// Supervise keeps a pod on this host running as defined, until ctx ends or the pod has
// ended. It adopts updates of other commands. The error explains why the pod can no
// longer be supervised: it was stopped or deleted, or its definition cannot be planned.
func (w *Worker) Supervise(ctx context.Context, s Supervision) (ended bool, err error) {
	w.adopts, w.attends = true, true
	if err := w.wasStopped(); err != nil {
		return false, err
	}
	w.pending, w.knowsPending = s.ResizePending, true
	defer w.supervised(ctx, &s)()
	ended, err = w.until(ctx, lifecycle.GoalNever)
	return ended, w.explain(ctx, err)
}

// supervised makes the worker supervise its pod, until the returned function is
// called.
func (w *Worker) supervised(ctx context.Context, s *Supervision) (end func()) {
	w.supervision = s
	w.watch = s.Hub.Watch(w.plan.ID.UID)
	w.retries.steps = map[string]retry{}
	w.undo.keep()
	beside := &imagesBeside{w: &w.starter, ctx: ctx, byName: map[string]*imageWait{}}
	w.images.waiter = beside
	w.trim()
	return func() {
		beside.close()
		w.watch.Close()
	}
}

// trim drops what only planning needed: a supervisor has many workers for long.
func (w *Worker) trim() {
	f := w.plan.Facts
	w.plan.Facts = host.Facts{NodeName: f.NodeName, NodeIPs: f.NodeIPs, Runtime: f.Runtime, Cgroup: f.Cgroup}
}

// retryLater handles the failures of a supervised pod: it reports them and schedules
// retries. The error is one that ends the supervision.
func (w *Worker) retryLater(ctx context.Context, err error) error {
	if w.removed() || ctx.Err() != nil {
		return err
	}
	if stopped := w.wasStopped(); stopped != nil {
		return stopped
	}
	now := time.Now()
	if err != nil {
		w.retries.after(podStep, now)
		w.report(err)
	}
	for _, f := range w.failures {
		w.report(f)
	}
	w.failures = nil
	return nil
}

// report gives out an error of a supervised pod once, until another one comes.
func (w *Worker) report(err error) {
	if observe.IsUnavailable(err) {
		return // the supervisor reports it, once for all pods
	}
	p := problem.WarningOf(err)
	if w.reportedError == p.String() {
		return
	}
	w.reportedError = p.String()
	w.SendWarnings(problem.List{p})
}

// awaitNews waits, without the pod's lock, for the next thing that Next would act
// upon.
func (w *Worker) awaitNews(ctx context.Context, d lifecycle.Decision) error {
	w.forgetRemoved()
	w.probe()
	w.emitBackOff(d)
	if next := w.retries.next(); !next.IsZero() && (d.Until.IsZero() || next.Before(d.Until)) {
		d.Until = next
	}
	stale := false
	err := w.unlocked(ctx, w.lost, func(ctx context.Context) (err error) {
		stale, err = w.watch.Await(ctx, w.Client, w.obs, d, w.wake)
		if code := status.Code(err); code == codes.NotFound || code == codes.Unavailable {
			stale, err = true, nil // observing again shows it
		}
		return err
	})
	switch {
	case errors.Is(err, store.ErrChanged):
		return nil // a new decision, of this same step: not another one of a command that applies
	case err != nil || !stale:
		return err
	}
	return w.relist(ctx)
}

// corrupt reports whether the pod's checkpoint was found to be corrupt.
func (w *owned) corrupt() bool {
	s := w.supervision
	return s != nil && s.Corrupt != nil && s.Corrupt.Load()
}

// restoreCheckpoint writes a corrupt checkpoint again, and retries that if it fails, as on a
// full disk. Without the checkpoint, the next supervisor could not supervise the pod. The
// pod's lock must be held.
func (w *Worker) restoreCheckpoint() {
	if w.supervision == nil || w.supervision.Corrupt == nil {
		return
	}
	found, now := w.supervision.Corrupt.Swap(false), time.Now()
	failed := w.retries.failed(checkpointStep)
	if !found && !failed || w.retries.held(checkpointStep, now) {
		return
	}
	_, err := store.ViewCheckpoint(w.plan.Layout, w.plan.ID.UID)
	if !store.IsCorrupt(err) {
		w.retries.forget(checkpointStep)
		return
	}
	if err := store.WriteCheckpoint(w.plan.Layout, w.plan.ID, w.plan.Checkpoint); err != nil {
		w.retries.after(checkpointStep, now)
		if !failed { // each error names another temporary file
			w.report(err)
		}
		return
	}
	w.retries.forget(checkpointStep)
	w.journal.Emit(event.Event{Type: event.Warning, Reason: event.CheckpointCorrupt,
		Message: "the pod's checkpoint was corrupt; podrun wrote it again, and the pod keeps running: " + store.BrokenCause(err).Error()})
}

// forgetRemoved discards the state of removed containers: a supervised container that
// crashes is started several hundred thousand times a year.
func (w *Worker) forgetRemoved() {
	here := make(map[string]bool, len(w.obs.Containers))
	for i := range w.obs.Containers {
		here[w.obs.Containers[i].ID] = true
	}
	removed := func(id string, _ bool) bool { return !here[id] }
	maps.DeleteFunc(w.mine, removed)
	maps.DeleteFunc(w.saidBackOff, removed)
	w.reported.Range(func(id, _ any) bool {
		if !here[id.(string)] {
			w.reported.Delete(id)
		}
		return true
	})
}
