package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
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

// The delay before a failed step is retried: 1 s at first, doubling up to 10 s, which is
// the kubelet's delay (backOffPeriod in pkg/kubelet).
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// retries are the delayed steps of a supervised pod, by the name of the container, or ""
// for the pod, resizeStep or checkpointStep.
type retries map[string]retry

type retry struct {
	at    time.Time
	delay time.Duration
}

// after notes a failure.
func (r retries) after(name string, now time.Time) {
	delay := min(max(r[name].delay*2, firstRetry), lastRetry)
	r[name] = retry{now.Add(delay), delay}
}

// held reports whether a step is still delayed.
func (r retries) held(name string, now time.Time) bool { return now.Before(r[name].at) }

// next is the time of the first retry after decided, which may have passed by now; zero if
// there is none.
func (r retries) next(decided time.Time) time.Time {
	var next time.Time
	for _, one := range r {
		if decided.Before(one.at) && (next.IsZero() || one.at.Before(next)) {
			next = one.at
		}
	}
	return next
}

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
	w.retries = retries{}
	w.undo.keep()
	pulls, cancel := context.WithCancel(ctx)
	w.waits = &imageWaits{ctx: pulls, byName: map[string]*imageWait{}}
	w.trim()
	return func() {
		cancel()
		w.waits.all.Wait()
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
		w.retries.after("", now)
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
	if next := w.nextRetry(); !next.IsZero() && (d.Until.IsZero() || next.Before(d.Until)) {
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

// checkpointStep is the writing of a corrupt checkpoint among the retries of a supervised pod;
// no container has that name.
const checkpointStep = "/checkpoint"

// restoreCheckpoint writes a corrupt checkpoint again, and retries that if it fails, as on a
// full disk. Without the checkpoint, the next supervisor could not supervise the pod. The
// pod's lock must be held.
func (w *Worker) restoreCheckpoint() {
	if w.supervision == nil || w.supervision.Corrupt == nil {
		return
	}
	found, now := w.supervision.Corrupt.Swap(false), time.Now()
	_, failed := w.retries[checkpointStep]
	if !found && !failed || w.retries.held(checkpointStep, now) {
		return
	}
	_, err := store.ViewCheckpoint(w.plan.Layout, w.plan.ID.UID)
	if !store.IsCorrupt(err) {
		delete(w.retries, checkpointStep)
		return
	}
	if err := store.WriteCheckpoint(w.plan.Layout, w.plan.ID, w.plan.Checkpoint); err != nil {
		w.retries.after(checkpointStep, now)
		if !failed { // each error names another temporary file
			w.report(err)
		}
		return
	}
	delete(w.retries, checkpointStep)
	w.journal.Emit(event.Event{Type: event.Warning, Reason: event.CheckpointCorrupt,
		Message: "the pod's checkpoint was corrupt; podrun wrote it again, and the pod keeps running: " + store.BrokenCause(err).Error()})
}

// nextRetry is when the first step is to be retried that was delayed when the actions were
// decided. On a busy host that time may have passed: then it is due at once.
func (w *starter) nextRetry() time.Time { return w.retries.next(w.decided) }

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

// superviseActions does the actions of a supervised pod that need not wait, and
// reports whether it did any.
func (w *starter) superviseActions(ctx context.Context, actions []lifecycle.Action) (did bool, err error) {
	now := time.Now()
	if w.decided = now; w.retries.held("", now) {
		return false, nil
	}
	var beside []lifecycle.Action // of containers that start in parallel
	for _, a := range actions {
		if cause := context.Cause(ctx); cause != nil {
			return did, cause
		}
		if a.Verb == lifecycle.ResizePod {
			if !w.retries.held(resizeStep, now) {
				did = true
				if err := w.resize(ctx); err != nil {
					return did, err
				}
			}
			continue
		}
		if a.Verb == lifecycle.StartContainer {
			init := lifecycle.FindContainer(w.pod(), a.Container).Init
			held, goOn := w.retries.held(a.Container, now), true
			if !held {
				held, goOn = w.imageHeld(a)
			}
			if held && goOn && !init {
				continue
			} else if held {
				return did, w.superviseBeside(ctx, beside)
			}
		}
		did = true
		if w.startsBeside(a) {
			beside = append(beside, a)
			continue
		}
		if err := w.superviseBeside(ctx, beside); err != nil {
			return did, err
		}
		beside = nil
		failures := len(w.failures)
		if err := w.executeOne(ctx, a); err != nil {
			return did, err
		}
		switch {
		case len(w.failures) == failures && a.Verb == lifecycle.StartContainer:
			delete(w.retries, a.Container)
		case len(w.failures) > failures:
			w.retries.after(a.Container, time.Now())
			if lifecycle.FindContainer(w.pod(), a.Container).Init {
				return did, nil // later containers depend on an init container
			}
		}
	}
	if err := w.superviseBeside(ctx, beside); err != nil {
		return did, err
	}
	delete(w.retries, "")
	return did, nil
}

// superviseBeside starts containers in parallel; nothing if there are none. One that
// fails is started again later.
func (w *starter) superviseBeside(ctx context.Context, actions []lifecycle.Action) error {
	if len(actions) == 0 {
		return nil
	}
	failed, err := w.startContainers(ctx, actions...)
	if err != nil {
		return err
	}
	for _, a := range actions {
		if slices.Contains(failed, a.Container) {
			w.retries.after(a.Container, time.Now())
		} else {
			delete(w.retries, a.Container)
		}
	}
	return nil
}
