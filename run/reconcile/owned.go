package reconcile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/podrun/podrun/run/observe"

	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/store"
)

// errLost ends a long call of a command that does not own the pod any more.
var errLost = errors.New("another podrun has taken the pod over")

// deletedError says that another podrun deleted the pod.
type deletedError struct{ by string }

func (e deletedError) Error() string { return "was deleted meanwhile by " + e.by }

func isDeleted(err error) bool {
	_, ok := errors.AsType[deletedError](err)
	return ok
}

// staleAfter is how old an observation may be that is still acted upon although
// no other podrun had the pod's lock.
const staleAfter = time.Second

// unlocked does something slow without the pod's lock. It ends early when
// another command takes the pod over. Afterwards the lock is held again, unless
// ctx has ended: then nothing is left to do but a rollback, which takes the lock
// itself.
//
// The result is nil where no other command took the pod over; an old observation
// is replaced. It is store.ErrChanged where one did: the pod was observed again, and the
// caller has to decide again. Any other error ends the command's work on the pod.
func (s *Worker) unlocked(ctx context.Context, slow func(context.Context) error) error {
	return s.unlockedUntil(ctx, s.lost, slow)
}

// unlockedHook is unlocked for a hook, which goes on when another command takes
// over a pod that stays: it must not be run twice.
func (s *Worker) unlockedHook(ctx context.Context, slow func(context.Context) error) error {
	return s.unlockedUntil(ctx, s.ended, slow)
}

// unlockedPull is unlocked for the pull of an image, which goes on when another
// command takes over a pod that still waits for its images.
func (s *Worker) unlockedPull(ctx context.Context, slow func(context.Context) error) error {
	return s.unlockedUntil(ctx, s.startedByOther, slow)
}

func (s *Worker) unlockedUntil(ctx context.Context, over func() bool, slow func(context.Context) error) error {
	if s.lock.Pinned {
		return slow(ctx)
	}
	begun := time.Now()
	s.lock.Unlock()
	err := whileNot(ctx, over, slow)
	if ctx.Err() != nil {
		return orCause(ctx, err)
	}
	changed, lockErr := s.lock.Take(ctx)
	if lockErr != nil {
		return errors.Join(err, lockErr)
	}
	return s.reobserve(ctx, err, changed || time.Since(begun) > staleAfter)
}

// orCause is err, or what ended ctx if there is none.
func orCause(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errLost) {
		return context.Cause(ctx)
	}
	return err
}

// whileNot does something slow, and ends it with errLost once over is true.
func whileNot(ctx context.Context, over func() bool, slow func(context.Context) error) error {
	inner, cancel := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for observe.Sleep(inner, store.OwnerPoll) == nil {
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

// lost tells whether the pod has another owner than when its lock was last held,
// or is gone.
func (s *Worker) lost() bool {
	now, err := s.lock.Current()
	return err == nil && now != s.lock.Seen || s.gone()
}

// ended tells whether another command stops, replaces or removes the pod, or has
// done so.
func (s *Worker) ended() bool {
	r, err := s.lock.Owner()
	return err == nil && r != nil && r.Generation != s.lock.Seen && r.Ends() || s.gone()
}

// startedByOther tells whether another command has taken the pod over and begun
// to start its containers, or to end it.
func (s *Worker) startedByOther() bool {
	r, err := s.lock.Owner()
	return err == nil && r != nil && r.Generation != s.lock.Seen && (!r.Fresh || r.Ends()) || s.gone()
}

// gone tells whether a pod that has a directory has none any more.
func (s *Worker) gone() bool {
	if !s.reserved {
		return false
	}
	_, err := os.Lstat(s.plan.Layout.Pod(s.plan.ID.UID))
	return os.IsNotExist(err)
}

// reobserve is the only way on after a wait without the lock. Old says that what
// is known of the pod must be observed again, even if it has no other owner.
func (s *Worker) reobserve(ctx context.Context, err error, old bool) error {
	now, ownerErr := s.lock.Current()
	if ownerErr != nil {
		return errors.Join(err, ownerErr)
	}
	lost := now != s.lock.Seen || errors.Is(err, errLost)
	s.lock.Seen = now
	if !s.ending {
		if s.gone() {
			return s.deleted()
		}
		if stopped := s.wasStopped(); stopped != nil {
			return stopped
		}
	}
	switch {
	case err != nil && !lost:
		return err // as it is: its reporter looks for its object
	case !lost && !old:
		return nil
	}
	if err := s.relist(ctx); err != nil {
		return err
	}
	if lost {
		return store.ErrChanged
	}
	return nil
}

// deleted is the error of a command whose pod another one removed.
func (s *Worker) deleted() error {
	by := "another podrun"
	if s.lock.Held != nil && s.lock.Held.Before != "" {
		by = store.ShownHolder(s.lock.Held.Before)
	}
	return &problem.Error{Kind: problem.Failed, Object: "pod " + s.plan.ID.String(), Err: deletedError{by}}
}

// own makes sure, under the lock, that this command owns the pod, or follows the
// live command that does. An error says why it can do neither; store.ErrChanged, that
// it has to look again.
func (s *Worker) own(ctx context.Context) (owns bool, err error) {
	if s.lock.Owned() {
		return true, nil
	}
	s.undo.forget() // what is to be undone is in the record
	r, err := s.lock.Owner()
	if err != nil {
		return false, err
	}
	live := s.lock.Live(r)
	switch {
	case live && r.Ends():
		return false, s.endOf(ctx, r)
	case s.gone():
		return false, s.deleted()
	case r != nil && r.Doomed:
		return false, &problem.Error{Kind: problem.Failed, Object: "pod " + s.plan.ID.String(),
			Err: fmt.Errorf("its removal by %s was interrupted", r.Shown()), Hint: "run 'podrun delete' or 'podrun apply' again"}
	}
	if err := s.takeDefinition(ctx, r); err != nil || live {
		return false, err
	}
	if err := s.acquire(store.PurposeRun); err != nil {
		return false, err
	}
	return true, s.relist(ctx)
}

// endOf waits, without the lock, for the end of the command that owns the pod.
// The error is store.ErrChanged then.
func (s *Worker) endOf(ctx context.Context, r *store.OwnerRecord) error {
	err := s.unlockedUntil(ctx, func() bool { return false }, func(ctx context.Context) error { return s.lock.AwaitEnd(ctx, r) })
	if err == nil {
		err = store.ErrChanged
	}
	return err
}

// acquire makes this command the owner of its pod.
func (s *Worker) acquire(p store.Purpose) error {
	s.startNoted = false
	return s.lock.Acquire(s.plan.ID.UID, p, !s.attends, false)
}

// orNotOwner is the error of a step that was to be done under the lock by the
// pod's owner; store.ErrChanged where there is no other.
func (s *Worker) orNotOwner(err error) error {
	if err == nil {
		return store.ErrChanged
	}
	return err
}

// takeDefinition makes sure that the plan is that of the pod that is here:
// another command may have updated it in place. A command that looks after the
// pod goes on with the new definition; one that applied the old one ends.
func (s *Worker) takeDefinition(ctx context.Context, by *store.OwnerRecord) error {
	c, err := store.ReadCheckpoint(s.plan.Layout, s.plan.ID.UID)
	if err != nil {
		return err
	}
	if c == nil {
		return s.deleted()
	}
	live, bound, frozen := c.Differ(s.plan.Checkpoint)
	if len(manifest.Changes(c.Pod, s.plan.Checkpoint.Pod))+len(live)+len(bound)+len(frozen) == 0 {
		return nil
	}
	if !s.adopts {
		return s.superseded(by)
	}
	facts, err := discover.Read(ctx, s.Client, s.Settings, discover.Options{})
	if err != nil {
		return err
	}
	plan, problems := replan(s.Node, c, facts)
	if err := problem.Refuse(problem.Refused, problems); err != nil {
		return err
	}
	s.plan, s.pulls, s.pulled = plan, nil, map[string]bool{}
	return nil
}

// superseded is the error of an apply of a pod that another command has changed.
func (s *Worker) superseded(by *store.OwnerRecord) error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + s.plan.ID.String(),
		Err:  fmt.Errorf("was changed meanwhile by %s", by.Shown()),
		Hint: "'podrun get' shows the pod as it is now; apply this manifest again to go back to it"}
}

// beforeStart notes, before the first container is started, that from now on a
// failure leaves the pod in place for diagnosis.
func (s *Worker) beforeStart() error {
	s.undo.forget()
	if s.startNoted {
		return nil
	}
	err := s.lock.Update(func(r *store.OwnerRecord) { r.Fresh = false })
	s.startNoted = err == nil
	return err
}
