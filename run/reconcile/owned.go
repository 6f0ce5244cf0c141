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
	"github.com/podrun/podrun/run/observe"
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

// owned is a process's ownership of one pod: it says whether the process may act on the pod
// now. What the process knows of the pod is read again whenever it may have changed.
type owned struct {
	pod  *state
	lock *store.PodLock
	undo undo
	pace pace
	// attends is true if the operation does not require the pod to exist, but supervises
	// it as long as it does.
	attends bool
	// ending is true if the operation stops or removes the pod.
	ending bool
	// hasDir is true if the pod has a directory.
	hasDir bool
	// startNoted is true if the owner record shows that a container was started.
	startNoted bool
	// outage is since when the runtime has been away; zero while it answers.
	outage time.Time
}

// newLease returns the ownership that the lock's process has, or takes, of a pod.
func newLease(p *state, lock *store.PodLock) *owned {
	return &owned{pod: p, lock: lock, pace: commandPace()}
}

// pace is how an operation checks, during a long call, whether it still owns its pod.
type pace struct {
	next     func(context.Context) error // waits for the next check
	corrupt  func() bool                 // whether the pod's checkpoint is corrupt
	progress *Progress                   // nil for none
	endless  bool                        // waits without limit for a runtime that is away
}

// commandPace is that of a command.
func commandPace() pace {
	return pace{
		next:    func(ctx context.Context) error { return wait.Sleep(ctx, store.OwnerPoll) },
		corrupt: func() bool { return false },
	}
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
	w.pace.progress.Wait()
	defer w.pace.progress.act()
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
		for w.pace.next(inner) == nil {
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

// lost reports whether the owner of the pod has changed since its lock was last held, the
// pod no longer exists, or its checkpoint is corrupt.
func (w *owned) lost() bool {
	now, err := w.lock.Current()
	return err == nil && now != w.lock.Seen || w.removed() || w.pace.corrupt()
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
	_, err := os.Lstat(w.pod.plan.Layout.Pod(w.pod.plan.ID.UID))
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
		if stopped := w.pod.wasStopped(); stopped != nil {
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
	return &problem.Error{Kind: problem.Failed, Object: "pod " + w.pod.plan.ID.String(), Err: deletedError{by}}
}

// A standing is how an operation stands to its pod.
type standing struct {
	owned bool               // it owns the pod
	by    *store.OwnerRecord // otherwise, who owned it last; nil for none
	live  bool               // and still works on it
}

// standing returns, under the lock, how the operation stands to its pod, which it may have
// lost while it waited. An error explains why it can neither own nor follow it;
// store.ErrChanged means that the caller must decide again.
func (w *owned) standing(ctx context.Context) (standing, error) {
	if w.lock.Owned() {
		return standing{owned: true}, nil
	}
	w.undo.forget() // the record lists what must be undone
	r, err := w.lock.Owner()
	if err != nil {
		return standing{}, err
	}
	live := w.lock.Live(r)
	switch {
	case live && r.Ends():
		return standing{}, w.endOf(ctx, r, nil)
	case w.removed():
		return standing{}, w.deleted()
	case r.Removes():
		return standing{}, &problem.Error{Kind: problem.Failed, Object: "pod " + w.pod.plan.ID.String(),
			Err: fmt.Errorf("its removal by %s was interrupted", r.Shown()), Hint: "run 'podrun delete' or 'podrun apply' again"}
	}
	return standing{by: r, live: live}, nil
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
	return w.lock.Acquire(w.pod.plan.ID.UID, p, !w.attends, false)
}

// orNotOwner is the error of a step that was to be done under the lock by the
// pod's owner; store.ErrChanged where there is no other.
func (w *owned) orNotOwner(err error) error {
	if err == nil {
		return store.ErrChanged
	}
	return err
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

// longestOutage is how long a runtime may be away while a pod is waited for: one
// that is restarted is back by then.
const longestOutage = time.Minute

// relist observes the pod again. While the runtime does not answer or the pod cannot be
// read, the known state remains: nothing that podrun records may follow from a failed
// observation.
func (w *owned) relist(ctx context.Context) error {
	err := w.pod.observe(ctx)
	if !observe.IsUnavailable(err) {
		w.outage = time.Time{}
		return err
	}
	if w.outage.IsZero() {
		w.outage = time.Now()
	}
	if w.pace.endless || time.Since(w.outage) < longestOutage {
		return nil
	}
	return err
}
