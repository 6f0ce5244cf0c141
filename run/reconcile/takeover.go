package reconcile

import (
	"context"
	"errors"
	"slices"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// admitAgain admits a pod that another command took over, once that one has
// ended. It fails where that one removed the pod, or made another one of it.
func (s *Worker) admitAgain(ctx context.Context, t prepare.Target, o ApplyOptions) (prepare.Target, error) {
	s.undo.forget()
	s.lock.Reservation.Release()
	r, err := s.otherOwner(ctx)
	switch {
	case err != nil:
		return t, err
	case r == nil:
		return t, s.deleted()
	}
	if changed, err := s.changedByOther(t, r); err != nil || changed {
		if err == nil {
			err = s.superseded(r)
		}
		return t, err
	}
	targets, err := s.Admit(ctx, s.objects, store.PodLocks{t.Plan.ID.String(): s.lock}, o.Admit())
	if err != nil {
		return t, err
	}
	t = targets[0]
	if err := t.Refused(); err != nil {
		return t, err
	}
	s.plan, s.obs, s.pulls, s.pulled = t.Plan, &lifecycle.Observed{}, nil, map[string]bool{}
	return t, nil
}

// otherOwner returns the record of the command that took the pod over, when that
// command has ended; nil if it removed the pod.
func (s *Worker) otherOwner(ctx context.Context) (*store.OwnerRecord, error) {
	for {
		r, err := s.lock.Owner()
		if err != nil || !s.lock.Live(r) || s.lock.Owned() {
			return r, err
		}
		if err := s.endOf(ctx, r); !errors.Is(err, store.ErrChanged) {
			return r, err
		}
	}
}

// changedByOther tells whether the pod that is here is neither the one that this
// command found nor the one that it brings.
func (s *Worker) changedByOther(t prepare.Target, r *store.OwnerRecord) (bool, error) {
	c, err := store.ReadCheckpoint(s.plan.Layout, r.UID)
	if err != nil || c == nil {
		return false, err
	}
	found := slices.Concat(t.Old, []prepare.Here{t.Was, {ID: t.Plan.ID, Pod: t.Plan.Pod}})
	for _, h := range found {
		if h.ID.UID == r.UID && h.Pod != nil && len(manifest.Changes(h.Pod, c.Pod)) == 0 {
			return false, nil
		}
	}
	return true, nil
}
