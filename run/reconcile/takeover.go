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

// admitAgain admits a pod that another command took over, once that one's operation has
// ended. It fails where that one removed the pod, or made another one of it.
func (a *applying) admitAgain(ctx context.Context, t prepare.Target, o ApplyOptions) (prepare.Target, error) {
	a.lease.Undo.Forget()
	a.lease.Lock.Reservation.Release()
	switch r, err := a.otherOwner(ctx, t); {
	case err != nil:
		return t, err
	case r == nil:
		return t, a.lease.Deleted()
	}
	targets, err := a.pod.Node.Admit(ctx, a.objects, store.PodLocks{t.Plan.ID.String(): a.lease.Lock}, o.Admit())
	if err != nil {
		return t, err
	}
	t = targets[0]
	if err := t.Refused(); err != nil {
		return t, err
	}
	a.pod.Plan, a.pod.Observed = t.Plan, &lifecycle.Observed{}
	a.loop.start.Images.Reset()
	return t, nil
}

// otherOwner returns the record of the command that took the pod over, when its operation
// has ended; nil if it removed the pod. It may be a supervisor's by then, which never ends.
// The error is superseded as soon as that command's definition of the pod is in effect: it
// may run the pod to its completion.
func (a *applying) otherOwner(ctx context.Context, t prepare.Target) (*store.OwnerRecord, error) {
	replaced := func() bool {
		r, err := a.lease.Lock.Owner()
		if err != nil || r == nil || r.Ends() {
			return false
		}
		changed, err := a.changedByOther(t, r)
		return err == nil && changed
	}
	for {
		r, err := a.lease.Lock.Owner()
		if err != nil || r == nil {
			return nil, err
		}
		ended := !a.lease.Operates(r) || a.lease.Lock.Owned()
		if ended || !r.Ends() {
			if changed, err := a.changedByOther(t, r); err != nil {
				return r, err
			} else if changed {
				return r, a.loop.superseded(r)
			}
		}
		if ended {
			return r, nil
		}
		if err := a.lease.AwaitEnd(ctx, r, replaced); !errors.Is(err, store.ErrChanged) {
			return r, err
		}
	}
}

// changedByOther reports whether the pod on this host is neither the one that this
// command found nor the one that it brings.
func (a *applying) changedByOther(t prepare.Target, r *store.OwnerRecord) (bool, error) {
	c, err := store.ReadCheckpoint(a.pod.Plan.Layout, r.UID)
	if err != nil || c == nil {
		return false, err
	}
	found := slices.Concat(t.Old, []prepare.Here{t.Was, {ID: t.Plan.ID, Pod: t.Plan.Pod}})
	for _, h := range found {
		if h.ID.UID == r.UID && h.Pod != nil && len(manifest.Changes(manifest.WithEphemeral(h.Pod, c.Pod.Spec.EphemeralContainers), c.Pod)) == 0 {
			return false, nil
		}
	}
	return true, nil
}
