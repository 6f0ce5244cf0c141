package reconcile

import (
	"context"
	"errors"

	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// rollback takes back what was made of a pod that could not be started. Of a pod
// of which no container was started that is all of it, whoever made it, unless
// another running command still wants the pod: then that one does so. Of another
// pod it is what this command made, while it owns the pod. The context of the
// command has often ended already, so this has one of its own.
func (w *Worker) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
	defer cancel()
	if r, err := w.lock.Owner(); err != nil || !w.mayUndo(r) {
		return err
	}
	if w.lock.Held == nil {
		if _, err := w.lock.Take(ctx); err != nil {
			return err
		}
	}
	r, err := w.lock.Owner()
	if err != nil || !w.mayUndo(r) {
		return err
	}
	kept, err := store.KeptByOthers(w.plan.Layout, w.plan.ID, w.lock.Claim, r.Incarnation)
	if err != nil {
		return err
	}
	if kept {
		w.SendWarnings(problem.List{{Object: "pod " + w.plan.ID.String(), Warning: true,
			Message: "podrun does not remove the pod: another podrun is still starting it"}})
		return nil
	}
	if r.Generation != w.lock.Mine {
		if err := w.acquire(store.PurposeRun); err != nil {
			return err
		}
	}
	err = w.undo.run(ctx)
	if r.Fresh && r.UID == w.plan.ID.UID {
		err = errors.Join(err, w.removeUnstarted(ctx))
	}
	w.obs = &lifecycle.Observed{}
	return err
}

// mayUndo reports whether this command may take back what was made: it owns the
// pod, or no container of the pod that it brought here was started.
func (w *Worker) mayUndo(r *store.OwnerRecord) bool {
	if r == nil || w.lock.Incarnation == "" || r.Incarnation != w.lock.Incarnation {
		return false
	}
	return r.Generation == w.lock.Mine && (r.Fresh || !w.undo.empty()) || r.Fresh && !r.Ends()
}

// removeUnstarted removes a pod of which no container was started. Where there is
// nothing left of it, its owner's record goes too.
func (w *Worker) removeUnstarted(ctx context.Context) error {
	o := newWorker(w.Node, w.plan, nil, w.lock)
	o.ending = true
	if err := o.remove(ctx, RemoveOptions{unstarted: true}); err != nil || lifecycle.AnyStarted(o.obs) {
		return err
	}
	return w.lock.Disown()
}

// undoDebug takes an ephemeral container back that was not started. The pod stays,
// whoever made it.
func (w *Worker) undoDebug(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
	defer cancel()
	if w.undo.empty() {
		return nil
	}
	if w.lock.Held == nil {
		if _, err := w.lock.Take(ctx); err != nil {
			return err
		}
	}
	if !w.lock.Owned() {
		return nil // its new owner has taken it in
	}
	return w.undo.run(ctx)
}

// removeDebug makes a pod's definition what it was before an ephemeral container was
// added, and removes that.
func (w *Worker) removeDebug(ctx context.Context, t prepare.Target, name string) error {
	if c := w.obs.Newest(name); c != nil {
		if err := w.Client.RemoveContainer(ctx, c.ID); err != nil {
			return err
		}
	}
	return store.WriteCheckpoint(w.plan.Layout, w.plan.ID, t.Was.Made)
}
