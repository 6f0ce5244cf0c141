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

// admitAgain admits a pod again after the command that took it over has ended its operation. It
// returns an error if that command removed the pod or changed its definition.
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
	a.pod.Plan = t.Plan
	a.pod.Observed = &lifecycle.Observed{}
	a.loop.start.Images.Reset()
	return t, nil
}

// otherOwner waits until the command that took over the pod has ended its operation. It returns the
// pod's owner record, or nil if that command removed the pod. By then, a supervisor may own the pod.
// otherOwner does not wait for a supervisor, because its operation does not end. When another
// definition takes effect, otherOwner immediately returns the error of superseded, because the
// command that applied this definition may run the pod to completion.
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

// changedByOther reports whether the pod on this host has a definition that is neither the one that
// this command found nor the one that it applies.
func (a *applying) changedByOther(t prepare.Target, r *store.OwnerRecord) (bool, error) {
	c, err := store.ReadCheckpoint(a.pod.Plan.Layout, r.UID)
	if err != nil || c == nil {
		return false, err
	}
	found := slices.Concat(t.Old, []prepare.ExistingPod{t.Was, {ID: t.Plan.ID, Pod: t.Plan.Pod}})
	for _, h := range found {
		if h.ID.UID == r.UID && h.Pod != nil && len(manifest.Changes(manifest.WithEphemeral(h.Pod, c.Pod.Spec.EphemeralContainers), c.Pod)) == 0 {
			return false, nil
		}
	}
	return true, nil
}
