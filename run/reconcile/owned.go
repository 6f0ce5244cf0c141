package reconcile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/store"
)

// errLost ends a long call of a command that no longer owns the pod.
var errLost = errors.New("another podrun has taken the pod over")

// deletedError is the error that another podrun has deleted the pod.
type deletedError struct{ by string }

// Error names the process that deleted the pod.
func (e deletedError) Error() string { return "was deleted by " + e.by }

// IsDeleted reports whether an error means that another command deleted the worker's pod.
// It is false for nil.
func IsDeleted(err error) bool {
	_, ok := errors.AsType[deletedError](err)
	return ok
}

// staleAfter is how old an observation may be that is still acted upon although
// no other podrun had the pod's lock.
const staleAfter = time.Second

// owned acts on a pod while its command owns it.
type owned struct {
	state
	// adopts: the command adopts the pod's new definition when another one updates it;
	// attends: it does not require the pod to exist, but supervises it as long as it
	// does.
	adopts, attends bool
	// ending: this command stops or removes the pod; dooms: it removes it; again: it creates it
	// again from its checkpoint then.
	ending, dooms, again bool
	// hasDir is true if the pod has a directory.
	hasDir bool
	// startNoted is true if the owner record shows that a container was started.
	startNoted bool
	// redefined is called when the pod has another definition.
	redefined func()
	// outage is since when the runtime has been away; zero while it answers.
	outage time.Time
}

// unlocked does something slow without the pod's lock. It ends early when
// another command takes the pod over. Afterwards the lock is held again, unless
// ctx has ended: then nothing is left to do but a rollback, which takes the lock
// itself.
//
// The result is nil where no other command took the pod over; an old observation
// is replaced. It is store.ErrChanged where one did: the pod was observed again, and the
// caller has to decide again. Any other error ends the command's work on the pod.
func (w *owned) unlocked(ctx context.Context, over func() bool, slow func(context.Context) error) error {
	if w.lock.Pinned {
		return slow(ctx)
	}
	begun := time.Now()
	w.progress().Wait()
	defer w.progress().act()
	w.lock.Unlock()
	err := w.whileNot(ctx, over, slow)
	if ctx.Err() != nil {
		return orCause(ctx, err)
	}
	changed, lockErr := w.lock.Take(ctx)
	if lockErr != nil {
		return errors.Join(err, lockErr)
	}
	return w.reobserve(ctx, err, changed || time.Since(begun) > staleAfter)
}

// orCause is err, or what ended ctx if there is none.
func orCause(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errLost) {
		return context.Cause(ctx)
	}
	return err
}

// whileNot does something slow, and ends it with errLost once over is true.
func (w *owned) whileNot(ctx context.Context, over func() bool, slow func(context.Context) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for w.awaitOwnerCheck(inner) == nil {
			if over() {
				cancel(errLost)
			}
		}
	})
	err := slow(inner)
	lost := context.Cause(inner) == errLost
	cancel(nil)
	watch.Wait()
	if lost {
		return errLost
	}
	return err
}

// awaitOwnerCheck waits until the next check of the pod's ownership.
func (w *owned) awaitOwnerCheck(ctx context.Context) error {
	s := w.supervision
	if s == nil {
		return wait.Sleep(ctx, store.OwnerPoll)
	}
	timer := time.NewTimer(s.OwnerPoll)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.OwnerChanged:
	case <-timer.C:
	}
	return nil
}

// lost reports whether the owner of the pod has changed since its lock was last held, the
// pod no longer exists, or its checkpoint is corrupt.
func (w *owned) lost() bool {
	now, err := w.lock.Current()
	return err == nil && now != w.lock.Seen || w.removed() || w.corrupt()
}

// ended reports whether another command stops, replaces or removes the pod, or has
// done so.
func (w *owned) ended() bool {
	r, err := w.lock.Owner()
	return err == nil && r != nil && r.Generation != w.lock.Seen && r.Ends() || w.removed()
}

// startedByOther reports whether another command has taken the pod over and begun
// to start its containers, or to end it.
func (w *owned) startedByOther() bool {
	r, err := w.lock.Owner()
	return err == nil && r != nil && r.Generation != w.lock.Seen && (!r.Fresh || r.Ends()) || w.removed()
}

// removed reports whether a pod that had a directory has none.
func (w *owned) removed() bool {
	if !w.hasDir {
		return false
	}
	_, err := os.Lstat(w.plan.Layout.Pod(w.plan.ID.UID))
	return os.IsNotExist(err)
}

// reobserve must be called after every wait without the lock. Old means that the known
// state must be observed again, even if the owner has not changed.
func (w *owned) reobserve(ctx context.Context, err error, old bool) error {
	now, ownerErr := w.lock.Current()
	if ownerErr != nil {
		return errors.Join(err, ownerErr)
	}
	lost := now != w.lock.Seen || errors.Is(err, errLost)
	w.lock.Seen = now
	if !w.ending {
		if w.removed() {
			return w.deleted()
		}
		if stopped := w.wasStopped(); stopped != nil {
			return stopped
		}
	}
	switch {
	case err != nil && !lost:
		return err // not wrapped: the caller checks its type
	case !lost && !old:
		return nil
	}
	if err := w.relist(ctx); err != nil {
		return err
	}
	if lost {
		return store.ErrChanged
	}
	return nil
}

// deleted is the error of a command whose pod another one removed.
func (w *owned) deleted() error {
	by := "another podrun"
	if w.lock.Held != nil && w.lock.Held.Before != "" {
		by = store.ShownHolder(w.lock.Held.Before)
	}
	return &problem.Error{Kind: problem.Failed, Object: "pod " + w.plan.ID.String(), Err: deletedError{by}}
}

// own ensures, under the lock, that this command owns the pod, or follows the live
// command that does. An error explains why it can do neither; store.ErrChanged means that
// it must decide again.
func (w *owned) own(ctx context.Context) (owns bool, err error) {
	if w.lock.Owned() {
		return true, nil
	}
	w.undo.forget() // the record lists what must be undone
	r, err := w.lock.Owner()
	if err != nil {
		return false, err
	}
	live := w.lock.Live(r)
	switch {
	case live && r.Ends():
		return false, w.endOf(ctx, r, nil)
	case w.removed():
		return false, w.deleted()
	case r.Removes():
		return false, &problem.Error{Kind: problem.Failed, Object: "pod " + w.plan.ID.String(),
			Err: fmt.Errorf("its removal by %s was interrupted", r.Shown()), Hint: "run 'podrun delete' or 'podrun apply' again"}
	}
	if live && w.supervision != nil {
		return false, ErrOwned
	}
	if err := w.takeDefinition(ctx, r); err != nil || live {
		return false, err
	}
	if err := w.acquire(store.PurposeRun); err != nil {
		return false, err
	}
	return true, w.relist(ctx)
}

// operates reports whether a command that owns the pod works on it, and that work ends: to
// wait for any other owner could last for as long as the pod exists.
func (w *owned) operates(r *store.OwnerRecord) bool { return r.Operates() && w.lock.Live(r) }

// endOf waits, without the lock, for the end of the operation of the command that owns the
// pod (operates), or until over is true; nil is never. The error is store.ErrChanged then.
func (w *owned) endOf(ctx context.Context, r *store.OwnerRecord, over func() bool) error {
	if over == nil {
		over = func() bool { return false }
	}
	err := w.unlocked(ctx, over, func(ctx context.Context) error { return w.lock.AwaitEnd(ctx, r) })
	if err == nil {
		err = store.ErrChanged
	}
	return err
}

// acquire makes this command the owner of its pod.
func (w *owned) acquire(p store.Purpose) error {
	w.startNoted = false
	return w.lock.Acquire(w.plan.ID.UID, p, !w.attends, false)
}

// orNotOwner is the error of a step that was to be done under the lock by the
// pod's owner; store.ErrChanged where there is no other.
func (w *owned) orNotOwner(err error) error {
	if err == nil {
		return store.ErrChanged
	}
	return err
}

// takeDefinition makes sure that the plan is that of the pod on this host: another
// command may have updated it in place. A command that supervises the pod adopts
// the new definition; one that applied the old one ends.
func (w *owned) takeDefinition(ctx context.Context, by *store.OwnerRecord) error {
	c, err := store.ReadCheckpoint(w.plan.Layout, w.plan.ID.UID)
	if err != nil {
		return err
	}
	if c == nil {
		return w.deleted()
	}
	if c.SecretsLost {
		c.Secrets, c.SecretsLost = w.plan.Checkpoint.Secrets, false // as they were
	}
	live, bound, frozen := c.Differ(w.plan.Checkpoint)
	if len(manifest.Changes(c.Pod, w.plan.Checkpoint.Pod))+len(live)+len(bound)+len(frozen) == 0 {
		return nil
	}
	// Ephemeral containers that another command added change nothing for this one.
	mine := manifest.WithEphemeral(w.plan.Checkpoint.Pod, c.Pod.Spec.EphemeralContainers)
	if !w.adopts && len(manifest.Changes(c.Pod, mine))+len(live)+len(bound)+len(frozen) > 0 {
		return w.superseded(by)
	}
	facts, err := w.HostFacts(ctx)
	if err != nil {
		return err
	}
	plan, problems := replan(w.Node, c, facts, w.AppliedSettings(by))
	if err := problem.Refuse(problem.Refused, problems); err != nil {
		return err
	}
	w.plan = plan
	w.redefined()
	return nil
}

// superseded is the error of an apply of a pod that another command has changed.
func (w *owned) superseded(by *store.OwnerRecord) error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + w.plan.ID.String(),
		Err:  fmt.Errorf("was changed by %s", by.Shown()),
		Hint: "'podrun get' shows the pod as it is now; apply this manifest again to go back to it"}
}

// beforeStart notes, before the first container is started, that from now on a
// failure leaves the pod in place for diagnosis.
func (w *owned) beforeStart() error {
	w.undo.forget()
	if w.startNoted {
		return nil
	}
	err := w.lock.Update(func(r *store.OwnerRecord) { r.Fresh = false })
	w.startNoted = err == nil
	return err
}
