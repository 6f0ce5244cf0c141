package reconcile

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/start"
	"github.com/podrun/podrun/run/store"
)

// Supervision is the additional state of a worker that supervises its pod. The worker uses a hub,
// which all workers share, to wait for changes. It works until its context ends, the pod ends, or
// another command takes over the pod.
type Supervision struct {
	Hub *observe.Hub
	// OwnerChanged receives a value when the pod's owner may have changed. Without such a value, the
	// worker checks the owner at the interval OwnerPoll.
	OwnerChanged <-chan struct{}
	OwnerPoll    time.Duration
	Progress     *lease.Progress // may be nil
	// Corrupt becomes true when the pod's checkpoint is found to be corrupt. OwnerChanged then wakes
	// the worker, which writes the checkpoint again from the definition in memory. Corrupt may be
	// nil.
	Corrupt *atomic.Bool
	// ResizePending is the reason why podrun cannot perform a resize that the pod's source
	// requests. It is nil if the source does not request a resize, or if podrun can perform the
	// resize.
	ResizePending *lifecycle.ResizePending
	Watch         *Watch // nil if the worker does not judge updates
}

// ErrOwned reports that another command works on a supervised pod.
var ErrOwned = errors.New("another command is working on the pod")

// Supervise keeps a pod on this host running as defined until ctx ends or the pod has ended. If another
// command updates the pod, Supervise continues with the new definition. The error explains why
// Supervise can no longer supervise the pod: the pod was stopped or deleted, or its definition cannot
// be planned.
func (w *Worker) Supervise(ctx context.Context, s Supervision) (ended bool, err error) {
	w.lease.Attends = true
	if err := w.pod.WasStopped(); err != nil {
		return false, err
	}
	w.pod.ResizePending = pod.PendingResize{Known: true, Reason: s.ResizePending}
	w.loop.emitNew(prepare.ForbiddenVolumes(w.pod.Plan.Checkpoint, w.pod.Node.Settings))
	defer w.loop.supervised(ctx, &s)()
	ended, err = w.loop.until(ctx, lifecycle.GoalNever)
	return ended, w.loop.explain(ctx, err)
}

// supervised makes the worker supervise its pod until the returned function is called.
func (l *loop) supervised(ctx context.Context, s *Supervision) (end func()) {
	changes := s.Hub.Watch(l.pod.Plan.ID.UID)
	l.policy = servePolicy(l.pod.Spec)
	l.waiter = watching{pod: l.pod, hub: s.Hub, changes: changes}
	l.corrupt = s.Corrupt
	if s.Watch != nil {
		l.watch = &updateWatch{Watch: *s.Watch, pod: l.pod, lease: l.lease, probing: l.probing, report: l.report}
	}
	l.lease.Pace = s.pace()
	l.lease.Undo.Disable()
	l.retries.steps = map[string]retry{}
	background := start.NewBackgroundImages(ctx, l.start, l.probing.wake.Send)
	l.start.Images.Waiter = background
	l.pod.WatchesGroup = true
	l.trim()
	return func() {
		background.Close()
		changes.Close()
	}
}

// pace returns the Pace of a supervisor's worker. A watch of owner records, which all workers share,
// wakes the worker.
func (s *Supervision) pace() lease.Pace {
	return lease.Pace{
		Next: func(ctx context.Context) error {
			timer := time.NewTimer(wait.Period(s.OwnerPoll))
			defer timer.Stop()
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-s.OwnerChanged:
			case <-timer.C:
			}
			return nil
		},
		Corrupt:  func() bool { return s.Corrupt != nil && s.Corrupt.Load() },
		Progress: s.Progress,
		Endless:  true,
	}
}

// trim drops data that is needed only for planning, because a supervisor has many long-lived
// workers.
func (l *loop) trim() {
	f := l.pod.Plan.Facts
	l.pod.Plan.Facts = host.Facts{NodeName: f.NodeName, NodeIPs: f.NodeIPs, Runtime: f.Runtime, Cgroup: f.Cgroup}
}

// retryLater reports the failures of a supervised pod and schedules retries. It returns an error only
// if the error ends the supervision.
func (l *loop) retryLater(ctx context.Context, err error) error {
	if l.lease.Removed() || ctx.Err() != nil {
		return err
	}
	if stopped := l.pod.WasStopped(); stopped != nil {
		return stopped
	}
	now := time.Now()
	if err != nil {
		l.retries.after(podStep, now)
		l.report(err)
	}
	for _, f := range l.start.Failures {
		l.report(f)
	}
	l.start.Failures = nil
	return nil
}

// report reports an error of a supervised pod, unless it is the same as the last one.
func (l *loop) report(err error) {
	if observe.IsUnavailable(err) {
		// The supervisor reports this error once for all pods.
		return
	}
	p := problem.WarningOf(err)
	if l.reportedError == p.String() {
		return
	}
	l.reportedError = p.String()
	l.pod.Node.SendWarnings(problem.List{p})
}

// restoreCheckpoint writes the checkpoint again if it is corrupt. If that fails, for example on a full
// disk, it is retried later. Without the checkpoint, the next supervisor could not supervise the pod.
// The pod's lock must be held.
func (l *loop) restoreCheckpoint() {
	if l.corrupt == nil {
		return
	}
	found, now := l.corrupt.Swap(false), time.Now()
	failed := l.retries.failed(checkpointStep)
	if !found && !failed || l.retries.held(checkpointStep, now) {
		return
	}
	_, err := store.ViewCheckpoint(l.pod.Plan.Layout, l.pod.Plan.ID.UID)
	if !store.IsCorrupt(err) {
		l.retries.forget(checkpointStep)
		return
	}
	if err := store.WriteCheckpoint(l.pod.Plan.Layout, l.pod.Plan.ID, l.pod.Plan.Checkpoint); err != nil {
		l.retries.after(checkpointStep, now)
		// Report this only once: each error names another temporary file, so report would not find two errors
		// equal.
		if !failed {
			l.report(err)
		}
		return
	}
	l.retries.forget(checkpointStep)
	l.pod.Journal.Emit(event.Event{Type: event.Warning, Reason: event.CheckpointCorrupt,
		Message: "the pod's checkpoint was corrupt; podrun wrote it again, and the pod keeps running: " + store.BrokenCause(err).Error()})
}

// forgetRemoved discards the state of removed containers: podrun may start a crashing container
// several hundred thousand times a year.
func (l *loop) forgetRemoved() {
	here := make(map[string]bool, len(l.pod.Observed.Containers))
	for i := range l.pod.Observed.Containers {
		here[l.pod.Observed.Containers[i].ID] = true
	}
	removed := func(id string, _ bool) bool { return !here[id] }
	maps.DeleteFunc(l.mine, removed)
	maps.DeleteFunc(l.reportedBackOff, removed)
	l.probing.reported.Range(func(id, _ any) bool {
		if !here[id.(string)] {
			l.probing.reported.Delete(id)
		}
		return true
	})
}
