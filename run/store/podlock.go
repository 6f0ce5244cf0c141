package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
)

// PodLock is the lock of a pod and the generation under which a command owns the
// pod. The lock covers short calls, never a wait.
type PodLock struct {
	Locks
	path string
	id   identity.Pod
	Held *FileLock
	// Removal is true if the command removes the pod, which must work even if the file system
	// cannot be written.
	Removal bool
	// Mine is the generation that this command took last; Seen is the pod's when
	// the lock was last held.
	Mine, Seen Generation
	// Incarnation is that of the pod that this command owned last.
	Incarnation string
	// keeps is true if the command requires the pod to exist.
	keeps bool
	// Ending are the containers that an owner asked to stop (OwnerRecord.Ending).
	Ending map[string]time.Time
	// Unreleased are the sandboxes whose networks may be released in part
	// (OwnerRecord.Unreleased).
	Unreleased []string
	Claim      *LockedFile
	// Killed is true if the previous owner was killed, and the runtime may still be executing its
	// last call.
	Killed bool
	// Origin is recorded for the pod at the next Acquire, and only there; nil keeps the
	// recorded one.
	Origin *Origin
	// NextOrigin is the origin of a definition that the pod does not have yet: SetOrigin
	// records it when the definition takes effect. Nil for none.
	NextOrigin *Origin
	// Reservation holds the resources that admission reserves for the pod until it has
	// them; nil for none.
	Reservation *LockedFile
	// Supervisor is true if the command is one (OwnerRecord.Attends).
	Supervisor bool
	// Pinned is true if no generation could be written, or the pod's generation belongs to another
	// UID. The lock is then kept during long calls too.
	Pinned bool
}

// Locks creates the pod locks of one process.
type Locks struct {
	layout identity.Layout
	holder string // names the process, uniquely
	warn   func(problem.List)
}

// NewLocks returns the locks of the process that holder names uniquely. It calls
// warn, which must not be nil, with the process that a lock waits for.
func NewLocks(layout identity.Layout, holder string, warn func(problem.List)) Locks {
	return Locks{layout: layout, holder: holder, warn: warn}
}

// podLock makes the lock of a pod, not yet taken.
func (l Locks) podLock(id identity.Pod) *PodLock {
	return &PodLock{Locks: l, path: l.layout.PodLock(id), id: id}
}

// LockPod acquires the lock of a pod for a command with that purpose. It waits
// for the holder, and for a live owner whose purpose ranks higher. The caller
// calls Release, also after an error, which is one of Lock.
func (locks Locks) LockPod(ctx context.Context, id identity.Pod, p Purpose) (*PodLock, error) {
	l := locks.podLock(id)
	l.Removal = p == PurposeRemove
	for {
		if _, err := l.Take(ctx); err != nil {
			return l, err
		}
		busy, err := l.outranked(p)
		if err != nil || busy == nil {
			return l, err
		}
		l.Unlock()
		if err := l.AwaitEnd(ctx, busy); err != nil {
			return l, err
		}
	}
}

// outranked returns the live owner for which a command with that purpose has to
// wait, or nil. The lock must be held.
func (l *PodLock) outranked(p Purpose) (*OwnerRecord, error) {
	r, err := l.Owner()
	if l.Removal || err == nil && (!r.outranks(p) || r.Generation == l.Mine || !l.Live(r)) {
		return nil, nil
	}
	return r, err
}

// OwnerPoll is the interval at which a waiting process reads the owner record of
// a pod.
const OwnerPoll = 100 * time.Millisecond

// AwaitEnd waits, without the lock, until the owner's command has ended or the
// pod has another owner. The error is one of Lock.
func (l *PodLock) AwaitEnd(ctx context.Context, r *OwnerRecord) error {
	l.warn(problem.List{{Object: "pod " + l.id.String(), Message: "waiting for " + r.Shown(), Warning: true}})
	for {
		now, err := l.Owner()
		if err != nil || now == nil || now.Generation != r.Generation || now.Doomed != r.Doomed || !l.Live(now) {
			return err
		}
		if wait.Sleep(ctx, OwnerPoll) != nil {
			return fmt.Errorf("pod %s: %w", l.id, LockWaitEnded(ctx, r.Shown()))
		}
	}
}

// Live reports whether an owner's process still holds its claim on the pod.
func (l *PodLock) Live(r *OwnerRecord) bool { return r.Live(l.layout) }

// Take acquires the lock and reports whether another process held it since this
// one released it. The error is one of Lock.
func (l *PodLock) Take(ctx context.Context) (changed bool, err error) {
	held, err := AwaitLock(ctx, l.path, func(holder string) {
		l.warn(problem.List{{Object: "pod " + l.id.String(), Message: "waiting for " + holder, Warning: true}})
	}, l.try)
	if err != nil {
		return false, fmt.Errorf("pod %s: %w", l.id, err)
	}
	l.Held = held
	return held.Before != l.holder, nil
}

// tryTake locks if no other process holds the lock.
func (l *PodLock) tryTake() (bool, error) {
	held, err := l.try()
	if err != nil {
		return false, fmt.Errorf("pod %s: %w", l.id, err)
	}
	l.Held = held
	return held != nil, nil
}

func (l *PodLock) try() (*FileLock, error) {
	if l.Removal {
		return TryLockReadOnly(l.path, l.holder)
	}
	return TryLock(l.path, l.holder)
}

// Unlock releases the lock if it is held. It may be called on nil.
func (l *PodLock) Unlock() {
	if l != nil {
		l.Held.Unlock()
		l.Held = nil
	}
}

// Release ends the command's claim and reservation and releases the lock. The
// generation stays on disk and is no longer live. It may be called on nil.
func (l *PodLock) Release() {
	if l != nil {
		l.Claim.Release()
		l.Claim = nil
		l.Reservation.Release()
		l.Unlock()
	}
}

// Owner reads the pod's owner record; nil if there is none. The record changes
// only under the lock.
func (l *PodLock) Owner() (*OwnerRecord, error) { return ReadOwner(l.layout, l.id) }

// Current returns the pod's current generation; the zero value if it has none.
func (l *PodLock) Current() (Generation, error) {
	r, err := l.Owner()
	if err != nil || r == nil {
		return Generation{}, err
	}
	return r.Generation, nil
}

// Owned reports whether this command is known to own the pod: the generation that it
// acquired is the current one. Without the lock the result may be outdated.
func (l *PodLock) Owned() bool { return l.CheckOwned() == nil }

// CheckOwned returns nil if this command owns the pod, and ErrChanged if it does not. Any other
// error is that the record cannot be read: it says nothing about the owner, and a caller that
// decides again because of it would do so without end.
func (l *PodLock) CheckOwned() error {
	if l.Pinned {
		if l.Held == nil {
			return ErrChanged
		}
		return nil
	}
	g, err := l.Current()
	if err == nil && (l.Mine == Generation{} || g != l.Mine) {
		err = ErrChanged
	}
	return err
}

// Acquire makes this command the owner of the pod with that UID by writing a new
// generation. Fresh means that the pod is a new one; keeps means that the command
// requires the pod to exist. The lock must be held.
//
// If no generation can be written, or the generation is that of a pod with
// another UID, a removal owns the pod without a generation and holds the lock
// instead (Pinned).
func (l *PodLock) Acquire(uid string, p Purpose, keeps, fresh bool) error {
	before, err := l.Owner()
	if err != nil && !l.Removal {
		return err
	}
	if l.Removal && before != nil && before.UID != uid {
		l.Pinned = true
		return nil
	}
	killed := before != nil && before.Generation != l.Mine && before.killed(l.layout)
	l.Killed = l.Killed || killed
	r := l.successor(before, uid, p)
	r.Unreleased = withIDs(r.Unreleased, l.Unreleased)
	if killed { // perhaps in a stop
		r.Unreleased = withIDs(r.Unreleased, slices.Collect(maps.Keys(before.Ending)))
	}
	if r.Again { // its owner did not create it again
		r.EndRemoval()
	}
	if fresh {
		r.EndRemoval()
		r.Incarnation, r.Fresh, r.Ending = RandomHex(8), true, nil
	}
	r.Attends = l.Supervisor || !keeps
	l.keeps = keeps
	err = l.makeClaim(r.Incarnation)
	if err == nil {
		r.Claim = l.Claim.name()
		err = writeOwner(l.layout, l.id, r)
	}
	switch {
	case err == nil:
		if killed {
			_ = os.Remove(filepath.Join(l.layout.Claims(), filepath.Base(before.Claim))) // the next sweep tries again
		}
		l.Mine, l.Seen, l.Incarnation, l.Ending, l.Unreleased = r.Generation, r.Generation, r.Incarnation, r.Ending, r.Unreleased
		l.Origin = nil // a later owner may record another one
		return nil
	case l.Removal && CannotWrite(err):
		l.Pinned = true
		_ = removeOwner(l.layout, l.id) // so that no other command owns the pod; it needs no space
		return nil
	}
	return fmt.Errorf("pod %s: take ownership: %w", l.id, err)
}

// successor is the record of the owner that follows.
func (l *PodLock) successor(before *OwnerRecord, uid string, p Purpose) OwnerRecord {
	r := OwnerRecord{Incarnation: RandomHex(8)}
	if before != nil {
		if before.UID == uid {
			r = *before
		}
		r.Generation = before.Generation
		r.Origin, r.Unreleased = before.Origin, before.Unreleased
	}
	if l.Origin != nil {
		r.Origin = l.Origin
	}
	r.Schema, r.UID, r.Purpose, r.Holder, r.Generation = ownerSchema, uid, p, l.holder, r.next()
	return r
}

// makeClaim makes the command's claim file, or writes another incarnation into it.
func (l *PodLock) makeClaim(incarnation string) (err error) {
	text := []byte(claimText(l.keeps, incarnation))
	if l.Claim != nil {
		return l.Claim.set(text)
	}
	l.Claim, err = MakeLockedFile(l.layout.Claims(), claimPrefix(l.id), text)
	return err
}

// Update changes the owner record of this command's generation. The error is
// ErrChanged if another command owns the pod. The lock must be held.
func (l *PodLock) Update(change func(*OwnerRecord)) error {
	if l.Pinned {
		return nil
	}
	r, err := l.Owner()
	switch {
	case err != nil:
		return err
	case r == nil || r.Generation != l.Mine:
		return ErrChanged
	}
	before := r.Incarnation
	if change(r); r.Incarnation != before {
		if err := l.makeClaim(r.Incarnation); err != nil {
			return err
		}
	}
	l.Incarnation, l.Ending, l.Unreleased = r.Incarnation, r.Ending, r.Unreleased
	err = writeOwner(l.layout, l.id, *r)
	if l.Removal && CannotWrite(err) {
		l.Pinned, err = true, nil
	}
	return err
}

// SetOrigin sets the origin of a pod whose definition is now the command's. The pod's
// lock must be held; it is called by Update.
func (l *PodLock) SetOrigin(r *OwnerRecord) {
	if l.NextOrigin != nil {
		r.Origin = l.NextOrigin
	}
}

// Disown deletes the owner record of a pod that was removed, if this command
// still owns it.
func (l *PodLock) Disown() error {
	if now, err := l.Current(); err != nil || now != l.Mine || l.Mine == (Generation{}) {
		return nil
	}
	return removeOwner(l.layout, l.id)
}

// Forget deletes the lock file of a pod that was removed, and releases the lock. The file
// stays, and is swept another time, if another running command has a claim on the pod: it
// reads there which process removed the pod.
func (l *PodLock) Forget() {
	if l == nil || l.Held == nil {
		return
	}
	if l.Pinned {
		l.forgetUnmade()
	}
	if !claimed(l.layout, l.id, l.Claim) {
		_ = os.Remove(l.path) // likewise
	}
	l.Release()
}

// forgetUnmade removes the owner record and the claim of a command that was killed before
// it created the directory of its pod, which has another UID than the removed one: a
// replacement. The lock must be held.
func (l *PodLock) forgetUnmade() {
	r, err := l.Owner()
	if err != nil || r == nil || r.Live(l.layout) || !identity.SafeUID(r.UID) {
		return
	}
	if _, err := os.Lstat(l.layout.Pod(r.UID)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	_ = removeOwner(l.layout, l.id) // it stays then, and is swept another time
}

// ErrChanged reports that another podrun changed the pod: the pod was observed
// again, and the caller must decide again.
var ErrChanged = errors.New("another podrun changed the pod")
