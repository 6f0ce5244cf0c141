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

// errLost ends a long call if the command no longer owns its pod.
var errLost = errors.New("another podrun process took over the pod")

// deletedError means that another podrun process has deleted the pod.
type deletedError struct{ by string }

// Error returns a message that names the process that deleted the pod.
func (e deletedError) Error() string { return "was deleted by " + e.by }

// IsDeleted reports whether an error means that another command deleted the worker's pod. It returns
// false for nil.
func IsDeleted(err error) bool {
	_, ok := errors.AsType[deletedError](err)
	return ok
}

// staleAfter is the maximum age of an observation, if no other podrun process has held the pod's lock
// since then.
const staleAfter = time.Second

// Lease is a process's ownership of one pod. It reports whether the process may act on the pod now, and
// reads the pod's state again if the state may have changed.
type Lease struct {
	Pod  *pod.Pod
	Lock *store.PodLock
	Undo Undo
	Pace Pace
	// Attends is true if the operation supervises the pod until another command deletes the pod, which is
	// not an error.
	Attends bool
	// Ending is true if the operation stops or removes the pod.
	Ending bool
	// HasDir is true if the pod has a directory.
	HasDir bool
	// startNoted is true if the owner record already shows that a container was started.
	startNoted bool
	// outage is the time at which the runtime became unavailable; it is zero while the runtime is
	// available.
	outage time.Time
}

// New returns a lease on a pod. The process must hold the lock. It must already own the pod, or
// acquire ownership later.
func New(p *pod.Pod, lock *store.PodLock) *Lease {
	return &Lease{Pod: p, Lock: lock, Pace: commandPace()}
}

// Pace configures how an operation checks, during a long call, whether it still owns its pod.
type Pace struct {
	Next     func(context.Context) error // waits for the next check
	Corrupt  func() bool                 // reports whether the pod's checkpoint is corrupt
	Progress *Progress                   // may be nil
	Endless  bool                        // if the runtime is unavailable, wait for it without limit
}

// commandPace returns the Pace of a command.
func commandPace() Pace {
	return Pace{
		Next:    func(ctx context.Context) error { return wait.Sleep(ctx, store.OwnerPoll) },
		Corrupt: func() bool { return false },
	}
}

// Do calls slow without the pod's lock. When over returns true, Do cancels slow. Afterwards it takes the
// lock again, unless ctx has ended: then only a rollback can follow, which takes the lock itself.
//
// If no other command has taken over the pod, Do renews the observation if it is outdated, and returns nil.
// Otherwise it observes the pod and returns store.ErrChanged: the caller must then make a new decision. Any
// other error ends the command's work on the pod.
func (l *Lease) Do(ctx context.Context, over func() bool, slow func(context.Context) error) error {
	if l.Lock.Pinned {
		return slow(ctx)
	}
	begun := time.Now()
	l.Pace.Progress.Wait()
	defer l.Pace.Progress.Act()
	l.Lock.Unlock()
	err := l.callUnless(ctx, over, slow)
	if ctx.Err() != nil {
		return orCause(ctx, err)
	}
	changed, lockErr := l.Lock.Take(ctx)
	if lockErr != nil {
		return errors.Join(err, lockErr)
	}
	return l.reobserve(ctx, err, changed || time.Since(begun) > staleAfter)
}

// orCause returns err or, if it is nil or errLost, the cause that ended ctx.
func orCause(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errLost) {
		return context.Cause(ctx)
	}
	return err
}

// callUnless calls slow. When over returns true, it cancels slow and returns errLost.
func (l *Lease) callUnless(ctx context.Context, over func() bool, slow func(context.Context) error) error {
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

// Lost reports whether another process has become the owner of the pod since this process last held
// the pod's lock. It also returns true if the pod no longer exists or its checkpoint is corrupt.
func (l *Lease) Lost() bool {
	now, err := l.Lock.Current()
	return err == nil && now != l.Lock.Seen || l.Removed() || l.Pace.Corrupt()
}

// Ended reports whether another command has stopped, replaced or removed the pod, or is about to do
// so.
func (l *Lease) Ended() bool {
	r, err := l.Lock.Owner()
	return err == nil && r != nil && r.Generation != l.Lock.Seen && r.Ends() || l.Removed()
}

// StartedByOther reports whether another command has taken over the pod and has begun to start its
// containers, or to stop, replace or remove the pod.
func (l *Lease) StartedByOther() bool {
	r, err := l.Lock.Owner()
	return err == nil && r != nil && r.Generation != l.Lock.Seen && (!r.Fresh || r.Ends()) || l.Removed()
}

// Removed reports whether the pod once had a directory and no longer has one.
func (l *Lease) Removed() bool {
	if !l.HasDir {
		return false
	}
	_, err := os.Lstat(string(l.Pod.Plan.Layout.Pod(l.Pod.Plan.ID.UID)))
	return os.IsNotExist(err)
}

// reobserve must be called after every wait without the lock. If old is true, it renews the observation even if the
// owner has not changed.
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
		return err // not wrapped, because the caller checks its type
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

// Deleted returns the error of a command whose pod was removed by another command.
func (l *Lease) Deleted() error {
	by := "another podrun"
	if l.Lock.Held != nil && l.Lock.Held.Before != "" {
		by = store.ShownHolder(l.Lock.Held.Before)
	}
	return &problem.Error{Kind: problem.Failed, Object: "pod " + l.Pod.Plan.ID.String(), Err: deletedError{by}}
}

// Ownership describes whether an operation owns its pod.
type Ownership struct {
	Owned bool               // the operation owns the pod
	By    *store.OwnerRecord // the last owner, if the operation does not own the pod; nil if there is none
	Live  bool               // the last owner is still working on the pod
}

// CheckOwnership reports whether the operation still owns its pod. Another process may have taken over the
// pod while the operation waited. The caller must hold the lock. CheckOwnership returns an error if the
// operation can neither own the pod nor wait for the new owner. If the error is store.ErrChanged, the
// caller must make a new decision.
func (l *Lease) CheckOwnership(ctx context.Context) (Ownership, error) {
	if l.Lock.Owned() {
		return Ownership{Owned: true}, nil
	}
	l.Undo.Forget() // the owner record lists what must be undone
	r, err := l.Lock.Owner()
	if err != nil {
		return Ownership{}, err
	}
	live := l.Lock.Live(r)
	switch {
	case live && r.Ends():
		return Ownership{}, l.AwaitEnd(ctx, r, nil)
	case l.Removed():
		return Ownership{}, l.Deleted()
	case r.Removes():
		return Ownership{}, &problem.Error{Kind: problem.Failed, Object: "pod " + l.Pod.Plan.ID.String(),
			Err: fmt.Errorf("its removal by %s was interrupted", r.Shown()), Hint: "run 'podrun delete' or 'podrun apply' again"}
	}
	return Ownership{By: r, Live: live}, nil
}

// Operates reports whether r belongs to a live command whose operation on the pod will end by itself,
// or to any live owner that is running a preStop hook. Any other owner, such as a supervisor, may keep
// the pod as long as the pod exists, so a command cannot wait for it.
func (l *Lease) Operates(r *store.OwnerRecord) bool {
	return (r.Operates() || r.HookRuns()) && l.Lock.Live(r)
}

// AwaitEnd waits, without the lock, until the command that owns the pod has ended its operation
// (Operates), or until the function over returns true. In both cases it returns store.ErrChanged.
// over may be nil.
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

// BeforeStart must be called before the first container is started. It records that podrun keeps
// the pod if a later step fails, so that users can diagnose the failure.
func (l *Lease) BeforeStart() error {
	l.Undo.Forget()
	if l.startNoted {
		return nil
	}
	err := l.Lock.Update(func(r *store.OwnerRecord) { r.Fresh = false })
	l.startNoted = err == nil
	return err
}

// longestOutage is how long a waiting command tolerates an unavailable runtime. A restart of the runtime
// takes less time.
const longestOutage = time.Minute

// Refresh observes the pod again. If the runtime is unavailable or the pod cannot be read, it keeps the last
// observation, because podrun must never record conclusions from a failed observation.
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

// RuntimeUnavailable reports whether the runtime was unavailable at the last attempt to observe the
// pod.
func (l *Lease) RuntimeUnavailable() bool { return !l.outage.IsZero() }

// Fresh reports whether no container of the pod has been started yet.
func (l *Lease) Fresh() (bool, error) {
	if l.startNoted {
		return false, nil
	}
	owner, err := l.Lock.Owner()
	return err == nil && owner != nil && owner.Fresh, err
}
