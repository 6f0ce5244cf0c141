package lease

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
	"github.com/podrun/podrun/run/pod"
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

// Lease is a process's ownership of one pod: it says whether the process may act on the pod
// now. What the process knows of the pod is read again whenever it may have changed.
type Lease struct {
	Pod  *pod.Pod
	Lock *store.PodLock
	Undo Undo
	Pace Pace
	// Attends is true if the operation does not require the pod to exist, but supervises
	// it as long as it does.
	Attends bool
	// Ending is true if the operation stops or removes the pod.
	Ending bool
	// HasDir is true if the pod has a directory.
	HasDir bool
	// startNoted is true if the owner record shows that a container was started.
	startNoted bool
	// outage is since when the runtime has been away; zero while it answers.
	outage time.Time
}

// New returns the ownership that the lock's process has, or takes, of a pod.
func New(p *pod.Pod, lock *store.PodLock) *Lease {
	return &Lease{Pod: p, Lock: lock, Pace: commandPace()}
}

// Pace is how an operation checks, during a long call, whether it still owns its pod.
type Pace struct {
	Next     func(context.Context) error // waits for the next check
	Corrupt  func() bool                 // whether the pod's checkpoint is corrupt
	Progress *Progress                   // nil for none
	Endless  bool                        // waits without limit for a runtime that is away
}

// commandPace is that of a command.
func commandPace() Pace {
	return Pace{
		Next:    func(ctx context.Context) error { return wait.Sleep(ctx, store.OwnerPoll) },
		Corrupt: func() bool { return false },
	}
}

// Do does something slow without the pod's lock. It ends early when
// another command takes the pod over. Afterwards the lock is held again, unless
// ctx has ended: then nothing is left to do but a rollback, which takes the lock
// itself.
//
// The result is nil where no other command took the pod over; an old observation
// is replaced. It is store.ErrChanged where one did: the pod was observed again, and the
// caller has to decide again. Any other error ends the command's work on the pod.
func (l *Lease) Do(ctx context.Context, over func() bool, slow func(context.Context) error) error {
	if l.Lock.Pinned {
		return slow(ctx)
	}
	begun := time.Now()
	l.Pace.Progress.Wait()
	defer l.Pace.Progress.Act()
	l.Lock.Unlock()
	err := l.whileNot(ctx, over, slow)
	if ctx.Err() != nil {
		return orCause(ctx, err)
	}
	changed, lockErr := l.Lock.Take(ctx)
	if lockErr != nil {
		return errors.Join(err, lockErr)
	}
	return l.reobserve(ctx, err, changed || time.Since(begun) > staleAfter)
}

// orCause is err, or what ended ctx if there is none.
func orCause(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errLost) {
		return context.Cause(ctx)
	}
	return err
}

// whileNot does something slow, and ends it with errLost once over is true.
func (l *Lease) whileNot(ctx context.Context, over func() bool, slow func(context.Context) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for l.Pace.Next(inner) == nil {
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

// Lost reports whether the owner of the pod has changed since its lock was last held, the
// pod no longer exists, or its checkpoint is corrupt.
func (l *Lease) Lost() bool {
	now, err := l.Lock.Current()
	return err == nil && now != l.Lock.Seen || l.Removed() || l.Pace.Corrupt()
}

// Ended reports whether another command stops, replaces or removes the pod, or has
// done so.
func (l *Lease) Ended() bool {
	r, err := l.Lock.Owner()
	return err == nil && r != nil && r.Generation != l.Lock.Seen && r.Ends() || l.Removed()
}

// StartedByOther reports whether another command has taken the pod over and begun
// to start its containers, or to end it.
func (l *Lease) StartedByOther() bool {
	r, err := l.Lock.Owner()
	return err == nil && r != nil && r.Generation != l.Lock.Seen && (!r.Fresh || r.Ends()) || l.Removed()
}

// Removed reports whether a pod that had a directory has none.
func (l *Lease) Removed() bool {
	if !l.HasDir {
		return false
	}
	_, err := os.Lstat(l.Pod.Plan.Layout.Pod(l.Pod.Plan.ID.UID))
	return os.IsNotExist(err)
}

// reobserve must be called after every wait without the lock. Old means that the known
// state must be observed again, even if the owner has not changed.
func (l *Lease) reobserve(ctx context.Context, err error, old bool) error {
	now, ownerErr := l.Lock.Current()
	if ownerErr != nil {
		return errors.Join(err, ownerErr)
	}
	lost := now != l.Lock.Seen || errors.Is(err, errLost)
	l.Lock.Seen = now
	if !l.Ending {
		if l.Removed() {
			return l.Deleted()
		}
		if stopped := l.Pod.WasStopped(); stopped != nil {
			return stopped
		}
	}
	switch {
	case err != nil && !lost:
		return err // not wrapped: the caller checks its type
	case !lost && !old:
		return nil
	}
	if err := l.Refresh(ctx); err != nil {
		return err
	}
	if lost {
		return store.ErrChanged
	}
	return nil
}

// Deleted is the error of a command whose pod another one removed.
func (l *Lease) Deleted() error {
	by := "another podrun"
	if l.Lock.Held != nil && l.Lock.Held.Before != "" {
		by = store.ShownHolder(l.Lock.Held.Before)
	}
	return &problem.Error{Kind: problem.Failed, Object: "pod " + l.Pod.Plan.ID.String(), Err: deletedError{by}}
}

// A Standing is how an operation stands to its pod.
type Standing struct {
	Owned bool               // it owns the pod
	By    *store.OwnerRecord // otherwise, who owned it last; nil for none
	Live  bool               // and still works on it
}

// Standing returns, under the lock, how the operation stands to its pod, which it may have
// lost while it waited. An error explains why it can neither own nor follow it;
// store.ErrChanged means that the caller must decide again.
func (l *Lease) Standing(ctx context.Context) (Standing, error) {
	if l.Lock.Owned() {
		return Standing{Owned: true}, nil
	}
	l.Undo.Forget() // the record lists what must be undone
	r, err := l.Lock.Owner()
	if err != nil {
		return Standing{}, err
	}
	live := l.Lock.Live(r)
	switch {
	case live && r.Ends():
		return Standing{}, l.AwaitEnd(ctx, r, nil)
	case l.Removed():
		return Standing{}, l.Deleted()
	case r.Removes():
		return Standing{}, &problem.Error{Kind: problem.Failed, Object: "pod " + l.Pod.Plan.ID.String(),
			Err: fmt.Errorf("its removal by %s was interrupted", r.Shown()), Hint: "run 'podrun delete' or 'podrun apply' again"}
	}
	return Standing{By: r, Live: live}, nil
}

// Operates reports whether a command that owns the pod works on it, and that work ends: to
// wait for any other owner could last for as long as the pod exists.
func (l *Lease) Operates(r *store.OwnerRecord) bool { return r.Operates() && l.Lock.Live(r) }

// AwaitEnd waits, without the lock, for the end of the operation of the command that owns the
// pod (Operates), or until over is true; nil is never. The error is store.ErrChanged then.
func (l *Lease) AwaitEnd(ctx context.Context, r *store.OwnerRecord, over func() bool) error {
	if over == nil {
		over = func() bool { return false }
	}
	err := l.Do(ctx, over, func(ctx context.Context) error { return l.Lock.AwaitEnd(ctx, r) })
	if err == nil {
		err = store.ErrChanged
	}
	return err
}

// Acquire makes this command the owner of its pod.
func (l *Lease) Acquire(p store.Purpose) error {
	l.startNoted = false
	return l.Lock.Acquire(l.Pod.Plan.ID.UID, p, !l.Attends, false)
}

// BeforeStart notes, before the first container is started, that from now on a
// failure leaves the pod in place for diagnosis.
func (l *Lease) BeforeStart() error {
	l.Undo.Forget()
	if l.startNoted {
		return nil
	}
	err := l.Lock.Update(func(r *store.OwnerRecord) { r.Fresh = false })
	l.startNoted = err == nil
	return err
}

// longestOutage is how long a runtime may be away while a pod is waited for: one
// that is restarted is back by then.
const longestOutage = time.Minute

// Refresh observes the pod again. While the runtime does not answer or the pod cannot be
// read, the known state remains: nothing that podrun records may follow from a failed
// observation.
func (l *Lease) Refresh(ctx context.Context) error {
	err := l.Pod.Observe(ctx)
	if !observe.IsUnavailable(err) {
		l.outage = time.Time{}
		return err
	}
	if l.outage.IsZero() {
		l.outage = time.Now()
	}
	if l.Pace.Endless || time.Since(l.outage) < longestOutage {
		return nil
	}
	return err
}

// Away reports whether the runtime did not answer when the pod was observed last.
func (l *Lease) Away() bool { return !l.outage.IsZero() }

// Fresh reports whether no container of the pod was started yet.
func (l *Lease) Fresh() (bool, error) {
	if l.startNoted {
		return false, nil
	}
	owner, err := l.Lock.Owner()
	return err == nil && owner != nil && owner.Fresh, err
}
