package reconcile

import (
	"context"
	"errors"

	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// rollback takes back what was made of a pod that could not be started. Of a pod
// of which no container was started that is all of it, whoever made it, unless
// another running command still wants the pod: then that one does so. Of another
// pod it is what this command made, while it owns the pod. The context of the
// command has often ended already, so this has one of its own.
func (s *Worker) rollback(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout)
	defer cancel()
	if r, err := s.lock.Owner(); err != nil || !s.mayUndo(r) {
		return err
	}
	if s.lock.Held == nil {
		if _, err := s.lock.Take(ctx); err != nil {
			return err
		}
	}
	r, err := s.lock.Owner()
	if err != nil || !s.mayUndo(r) {
		return err
	}
	kept, err := store.KeptByOthers(s.plan.Layout, s.plan.ID, s.lock.Claim, r.Incarnation)
	if err != nil {
		return err
	}
	if kept {
		s.SendWarnings(problem.List{{Object: "pod " + s.plan.ID.String(), Warning: true,
			Message: "podrun does not remove the pod: another podrun is still starting it"}})
		return nil
	}
	if r.Generation != s.lock.Mine {
		if err := s.acquire(store.PurposeRun); err != nil {
			return err
		}
	}
	err = s.undo.run(ctx)
	if r.Fresh && r.UID == s.plan.ID.UID {
		err = errors.Join(err, s.removeUnstarted(ctx))
	}
	s.obs = &lifecycle.Observed{}
	return err
}

// mayUndo tells whether this command may take back what was made: it owns the
// pod, or no container of the pod that it brought here was started.
func (s *Worker) mayUndo(r *store.OwnerRecord) bool {
	if r == nil || s.lock.Incarnation == "" || r.Incarnation != s.lock.Incarnation {
		return false
	}
	return r.Generation == s.lock.Mine && (r.Fresh || !s.undo.empty()) || r.Fresh && !r.Ends()
}

// removeUnstarted removes a pod of which no container was started. Where there is
// nothing left of it, its owner's record goes too.
func (s *Worker) removeUnstarted(ctx context.Context) error {
	o := newWorker(s.Node, s.plan, nil, s.lock)
	o.ending = true
	if err := o.remove(ctx, RemoveOptions{unstarted: true}); err != nil || lifecycle.AnyStarted(o.obs) {
		return err
	}
	return s.lock.Disown()
}
