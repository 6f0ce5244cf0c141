package reconcile

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lease"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// rollback removes the objects of a pod that failed to start. If no container of the pod was started,
// it removes the whole pod, even a pod that another command created, unless another running command
// requires the pod. Otherwise, if this command owns the pod, it removes the objects that this command
// created. It uses a separate context, because the command's context may have ended.
func (a *applying) rollback(ctx context.Context) error {
	ctx, cancel := wait.CleanupContext(ctx, lease.UndoTimeout)
	defer cancel()
	if r, err := a.lease.Lock.Owner(); err != nil || !a.mayUndo(r) {
		return err
	}
	if a.lease.Lock.Held == nil {
		if _, err := a.lease.Lock.Take(ctx); err != nil {
			return err
		}
	}
	r, err := a.lease.Lock.Owner()
	if err != nil || !a.mayUndo(r) {
		return err
	}
	kept, err := store.KeptByOthers(a.pod.Plan.Layout, a.pod.Plan.ID, a.lease.Lock.Claim, r.Incarnation)
	if err != nil {
		return err
	}
	if kept {
		a.pod.Node.SendWarnings(problem.List{{Object: "pod " + a.pod.Plan.ID.String(), Warning: true,
			Message: "podrun does not remove the pod: another podrun process is still starting it"}})
		return nil
	}
	if r.Generation != a.lease.Lock.Mine {
		if err := a.lease.Acquire(store.PurposeRun); err != nil {
			return err
		}
	}
	err = a.lease.Undo.Run(ctx)
	if r.Fresh && r.UID == a.pod.Plan.ID.UID {
		err = errors.Join(err, a.removeUnstarted(ctx))
	}
	a.pod.Observed = &lifecycle.Observed{}
	return err
}

// mayUndo reports whether this command may remove the objects that it created: either it owns the
// pod, or no container of this incarnation of the pod was started.
func (a *applying) mayUndo(r *store.OwnerRecord) bool {
	if r == nil || a.lease.Lock.Incarnation == "" || r.Incarnation != a.lease.Lock.Incarnation {
		return false
	}
	return r.Generation == a.lease.Lock.Mine && (r.Fresh || !a.lease.Undo.Empty()) || r.Fresh && !r.Ends()
}

// removeUnstarted removes a pod if none of its containers was started. If nothing else of the pod
// remains, it also removes the owner record.
func (a *applying) removeUnstarted(ctx context.Context) error {
	o := stop.NewRemover(pod.New(a.pod.Node, a.pod.Plan), a.lease.Lock)
	// Another command may still take over the pod.
	o.Stop.Removes = false
	remove := func() error { return o.Remove(ctx, stop.RemoveOptions{Unstarted: true}) }
	if err := stop.DuringOutage(ctx, remove); err != nil || lifecycle.AnyStarted(o.Pod.Observed) {
		return err
	}
	return a.lease.Lock.Disown()
}

// undoDebug removes an ephemeral container that was not started. It keeps the pod, even if this
// command created it.
func (a *applying) undoDebug(ctx context.Context) error {
	ctx, cancel := wait.CleanupContext(ctx, lease.UndoTimeout)
	defer cancel()
	if a.lease.Undo.Empty() {
		return nil
	}
	if a.lease.Lock.Held == nil {
		if _, err := a.lease.Lock.Take(ctx); err != nil {
			return err
		}
	}
	if !a.lease.Lock.Owned() {
		// The new owner has adopted the container.
		return nil
	}
	return a.lease.Undo.Run(ctx)
}

// removeDebug removes an ephemeral container, and restores the pod's definition without the
// container.
func (a *applying) removeDebug(ctx context.Context, t prepare.Target, name string) error {
	if c := a.pod.Observed.Newest(name); c != nil {
		if err := stop.RemoveContainer(ctx, a.pod.Node.Client, c.ID); err != nil {
			return err
		}
	}
	return store.WriteCheckpoint(a.pod.Plan.Layout, a.pod.Plan.ID, t.Was.Made)
}
