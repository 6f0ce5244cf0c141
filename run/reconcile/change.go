package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// prepareChange prepares a changed pod. It first pulls the new images, so that a misspelled image
// name causes no downtime. Then it either records an in-place update, or removes the old pod and
// reserves the resources of the new one. If the pod is unchanged but the storage of its Secrets has
// changed, prepareChange writes the checkpoint again.
func (a *applying) prepareChange(ctx context.Context, t prepare.Target, o ApplyOptions) error {
	if t.Change == prepare.ChangeUnchanged && (t.Was.Made.SecretsLost || t.Was.Made.InMemory != a.pod.Plan.Checkpoint.InMemory) {
		err := store.WriteCheckpoint(a.pod.Plan.Layout, a.pod.Plan.ID, a.pod.Plan.Checkpoint)
		if err == nil && a.pod.Plan.Checkpoint.InMemory {
			err = store.ForgetHistorySecrets(a.pod.Plan.Layout, a.pod.Plan.ID)
		}
		return err
	}
	if t.Change == prepare.ChangeUnchanged && t.DefinitionChanged() {
		a.recordDefinition()
		return nil
	}
	if t.Change != prepare.ChangeUpdate && t.Change != prepare.ChangeReplace {
		return nil
	}
	if !o.definesOnly(t) {
		wait := a.loop.start.Images.Ready
		if o.Supervision != nil {
			// The supervisor retries. Until then, it supervises the old pod.
			wait = a.loop.start.Images.Attempted
		}
		if err := a.lease.Do(ctx, a.lease.Lost, wait); err != nil {
			return err
		}
	}
	a.keepRevision(t)
	a.beginUpdate(ctx, t, o)
	if t.Change == prepare.ChangeUpdate {
		// Write the volumes before the definition: if podrun is interrupted in between, the next apply
		// still detects a change.
		if err := a.loop.start.Volumes.Refresh(ctx); err != nil {
			return err
		}
		if err := a.pod.BeginResize(t.Was.Pod); err != nil {
			return err
		}
		if err := a.update(o); err != nil {
			return err
		}
		if a.pod.Plan.Runs() {
			// From here on, admission counts the pod with its new definition. A supervisor would otherwise keep the
			// reservation for months.
			a.lease.Lock.Reservation.Release()
		}
		return nil
	}
	again := (o.FromCheckpoint || t.KeepsUID) && len(t.Old) == 1 && t.Old[0].ID.UID == a.pod.Plan.ID.UID
	if err := a.removeReplaced(ctx, t.Old, again); err != nil {
		return err
	}
	return a.reserveReplacement(ctx, again)
}

// recordDefinition records another object that defines the same pod, such as a Deployment instead of a
// Pod. A failure is only a warning. podrun uses the record only to find pods by the names of
// workloads, and applying an unchanged pod must succeed even on a full disk.
func (a *applying) recordDefinition() {
	if err := store.WriteCheckpoint(a.pod.Plan.Layout, a.pod.Plan.ID, a.pod.Plan.Checkpoint); err != nil {
		a.pod.Node.SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

// keepRevision adds the pod's current definition to the pod's history, unless its checkpoint could not
// be read. A failure is only a warning, because it must not prevent a change that may free disk space.
func (a *applying) keepRevision(t prepare.Target) {
	was := t.Was
	if was.Pod == nil && len(t.Old) == 1 {
		was = t.Old[0]
	}
	if was.Pod == nil || was.Made.Pod == nil || was.Ending {
		return
	}
	if err := store.KeepRevision(a.pod.Plan.Layout, was.ID, was.Made, a.pod.Plan.Checkpoint, a.pod.Plan.ID.UID, time.Now()); err != nil {
		a.pod.Node.SendWarnings(problem.List{problem.WarningOf(err)})
	}
}

// reserveReplacement reserves the resources of a pod after its predecessor was removed. If podrun
// recreates the pod from its checkpoint, it keeps the definition even if the pod fails to start, because
// the checkpoint is the only copy.
func (a *applying) reserveReplacement(ctx context.Context, again bool) error {
	a.pod.Observed = observe.NewPod(a.pod.Plan.Layout, a.pod.Plan.ID)
	if !again {
		a.lease.Undo.Push("remove the pod's directory", a.remove.Dirs)
	}
	err := a.pod.Node.UnderNodeLock(ctx, func() error {
		// The new definition is in effect from here on.
		defer a.lease.Lock.Reservation.Release()
		return node.Reserve(a.pod.Plan)
	})
	if err == nil && again {
		err = node.SyncReserved(a.pod.Plan)
	}
	if err != nil {
		return err
	}
	a.lease.HasDir = true
	return a.lease.Lock.Update(func(r *store.OwnerRecord) {
		r.UID = a.pod.Plan.ID.UID
		r.Incarnation = store.RandomHex(8)
		r.Fresh = !again
		r.EndRemoval()
		r.Ending = nil
		r.Stops = nil
		a.lease.Lock.SetOrigin(r)
	})
}

// update replaces the pod's definition with the definition of the command. The owner record must
// never name a source whose definition the pod does not have yet, because a supervisor could then
// delete the pod with its data.
func (a *applying) update(o ApplyOptions) error {
	checkpoint := func() error { return store.WriteCheckpoint(a.pod.Plan.Layout, a.pod.Plan.ID, a.pod.Plan.Checkpoint) }
	origin := func() error { return a.lease.Lock.Update(a.lease.Lock.SetOrigin) }
	steps := []func() error{origin, checkpoint}
	if o.Origin.Command == store.OriginServe {
		steps = []func() error{checkpoint, origin}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// removeReplaced removes the pods that this one replaces. It returns store.ErrChanged if another
// command takes over one of them.
func (a *applying) removeReplaced(ctx context.Context, old []prepare.ExistingPod, again bool) error {
	for _, h := range old {
		old := stop.NewRemover(pod.Known(a.pod.Node, observe.Known{ID: h.ID, Pod: h.Pod}, a.pod.Plan.Facts), a.lease.Lock)
		old.Stop.Recreates = again
		if err := old.Remove(ctx, stop.RemoveOptions{Stopped: func() { a.inheritEvents(h) }}); errors.Is(err, store.ErrChanged) {
			return err
		} else if err != nil {
			return pod.InStep(a.pod.Plan.ID, "remove the replaced pod", err)
		}
	}
	return nil
}

// inheritEvents copies the journal of a replaced pod, so that `events` shows the events of both pods.
func (a *applying) inheritEvents(h prepare.ExistingPod) {
	events, err := store.ReadJournal(a.pod.Plan.Layout, h.ID.UID)
	if err != nil {
		a.pod.Node.SendWarnings(problem.List{problem.WarningOf(fmt.Errorf("pod %s: keep the events of the replaced pod: %w", h.ID, err))})
		return
	}
	a.pod.Journal.Inherit(events)
}
