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

// PodLock is the lock of a pod, together with the generation under which a command owns the pod. A
// command holds the lock for short calls, and never while it waits.
type PodLock struct {
	Locks
	path string
	id   identity.Pod
	Held *FileLock
	// Removal is true if the command removes the pod. A removal must work even if the file system is
	// not writable.
	Removal bool
	// Mine is the last generation that this command acquired. Seen is the pod's generation when
	// this command last held the lock.
	Mine, Seen Generation
	// Incarnation is the incarnation of the pod that this command last owned.
	Incarnation string
	// keeps is true if the command requires the pod to exist.
	keeps bool
	// Ending and Stops contain the containers and sandboxes that an owner is stopping
	// (OwnerRecord).
	Ending map[string]time.Time
	Stops  map[string]ContainerStop
	// Unreleased are the sandboxes whose networks may be only partially released
	// (OwnerRecord.Unreleased).
	Unreleased []string
	Claim      *LockedFile
	// Killed is true if the previous owner, or another recent owner, was killed, so that the runtime
	// may still be executing the last call of that owner (OwnerRecord.KilledAt).
	Killed bool
	// Origin is the origin that the next Acquire records for the pod; nil keeps the recorded one.
	Origin *Origin
	// NextOrigin is the origin of a definition that has not taken effect yet. When it takes effect,
	// SetOrigin records this origin. NextOrigin may be nil.
	NextOrigin *Origin
	// Reservation holds resources for the pod until admission counts the pod itself. It is nil if
	// nothing is reserved.
	Reservation *LockedFile
	// Supervisor is true if the command is a supervisor (OwnerRecord.Attends).
	Supervisor bool
	// Pinned is true if podrun could not write a generation, or if the pod's generation belongs to
	// another UID. The command then holds the lock during long calls as well.
	Pinned  bool
	decoded decodedOwner
}

// Locks creates the pod locks of a process.
type Locks struct {
	layout identity.Layout
	holder string // a unique name of the process
	warn   func(problem.List)
	grace  *time.Duration // see WithGrace
}

// NewLocks returns the locks of a process. The argument holder is a unique name of the process. If
// the process must wait for a lock, Locks calls warn with a warning that names the lock's holder. The
// function warn must not be nil.
func NewLocks(layout identity.Layout, holder string, warn func(problem.List)) Locks {
	return Locks{layout: layout, holder: holder, warn: warn}
}

// podLock returns the lock of a pod without taking it.
func (l Locks) podLock(id identity.Pod) *PodLock {
	return &PodLock{Locks: l, path: l.layout.Locks().Pod(id), id: id}
}

// LockPod acquires the lock of a pod for a command with the given purpose. It waits until no other
// process holds the lock, no live owner has a purpose of higher rank, and none is running a preStop
// hook. The caller must call Release, even after an error. The errors are those of Lock.
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

// outranked returns the live owner for which a command with purpose p must wait, or nil. The lock must
// be held.
func (l *PodLock) outranked(p Purpose) (*OwnerRecord, error) {
	r, err := l.Owner()
	switch {
	case l.Removal && (err != nil || !r.HookRuns()), err == nil && !r.outranks(p) && !r.HookRuns():
		return nil, nil
	case err != nil:
		return nil, err
	case r.Generation == l.Mine || !l.Live(r):
		return nil, nil
	}
	if r.HookRuns() {
		l.handGrace(r)
	}
	return r, nil
}

// OwnerPoll is the interval at which a waiting process reads a pod's owner record.
const OwnerPoll = 100 * time.Millisecond

// AwaitEnd waits, without the lock, until the owner r has ended its operation or the pod has another
// owner. If r is running a preStop hook, it waits only until the hook has ended. The errors are those
// of Lock.
func (l *PodLock) AwaitEnd(ctx context.Context, r *OwnerRecord) error {
	hook, what := r.HookRuns(), ""
	if hook {
		what = ", which is running a preStop hook"
	}
	l.warn(problem.List{{Object: "pod " + l.id.String(), Message: "waiting for " + r.Shown() + what, Warning: true}})
	for {
		now, err := l.Owner()
		if err != nil || now == nil || now.Generation != r.Generation || now.Doomed != r.Doomed || !l.Live(now) || hook && !now.HookRuns() {
			return err
		}
		if wait.Sleep(ctx, OwnerPoll) != nil {
			return fmt.Errorf("pod %s: %w", l.id, LockWaitEnded(ctx, r.Shown()))
		}
	}
}

// Live reports whether an owner's process still holds its claim on the pod.
func (l *PodLock) Live(r *OwnerRecord) bool { return r.Live(l.layout) }

// Take acquires the lock, and reports whether another process has held it since this process
// released it. The errors are those of Lock.
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

// tryTake takes the lock if no other process holds it.
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

// Unlock releases the lock if the command holds it. It may be called on nil.
func (l *PodLock) Unlock() {
	if l != nil {
		l.Held.Unlock()
		l.Held = nil
	}
}

// Release ends the command's claim and reservation, and releases the lock. The generation remains
// on disk, but its owner is no longer live. Release may be called on nil.
func (l *PodLock) Release() {
	if l != nil {
		l.Claim.Release()
		l.Claim = nil
		l.Reservation.Release()
		l.Unlock()
	}
}

// Owner reads the pod's owner record. It returns nil if there is none. The record changes only
// under the lock.
func (l *PodLock) Owner() (*OwnerRecord, error) {
	return l.decoded.read(l.layout, l.id)
}

// Current returns the pod's current generation, or the zero value if there is none.
func (l *PodLock) Current() (Generation, error) {
	r, err := l.Owner()
	if err != nil || r == nil {
		return Generation{}, err
	}
	return r.Generation, nil
}

// Owned reports whether this command certainly owns the pod, which means that the generation that
// it acquired is the current one. If the command does not hold the lock, the result may be
// outdated.
func (l *PodLock) Owned() bool { return l.CheckOwned() == nil }

// CheckOwned returns nil if this command owns the pod, and ErrChanged if it does not. Any other error
// means that podrun cannot read the record. A caller must not treat that error like ErrChanged,
// because it would then repeat its decision forever.
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

// Acquire makes this command the owner of the pod with the given UID by writing a new generation.
// The argument fresh means that the pod is new; keeps means that the command requires the pod to
// exist. The lock must be held.
//
// Acquire returns ErrChanged if a live owner is running a preStop hook.
//
// If podrun cannot write a generation, or if the current generation belongs to a pod with another
// UID, a removal owns the pod without a generation, and keeps the lock instead (Pinned).
func (l *PodLock) Acquire(uid string, p Purpose, keeps, fresh bool) error {
	before, err := l.Owner()
	if err != nil && !l.Removal {
		return err
	}
	if l.Removal && before != nil && before.UID != uid {
		l.Pinned = true
		return nil
	}
	if before.HookRuns() && before.Generation != l.Mine && l.Live(before) {
		return ErrChanged
	}
	killed := before != nil && before.Generation != l.Mine && before.killed(l.layout)
	r := l.successor(before, uid, p)
	r.noteKilled(killed, time.Now())
	l.Killed = l.Killed || r.KilledAt != nil
	r.Unreleased = withIDs(r.Unreleased, l.Unreleased)
	// The previous owner may have been killed while it was stopping a sandbox.
	if killed {
		r.Unreleased = withIDs(r.Unreleased, slices.Collect(maps.Keys(before.Ending)))
	}
	// The previous owner ended before it recreated the pod.
	if r.Recreate {
		r.EndRemoval()
	}
	r.interruptHooks()
	if fresh {
		r.EndRemoval()
		r.Incarnation = RandomHex(8)
		r.Fresh = true
		r.Ending = nil
		r.Stops = nil
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
		l.Mine = r.Generation
		l.Seen = r.Generation
		l.Incarnation = r.Incarnation
		l.Ending = r.Ending
		l.Stops = r.Stops
		l.Unreleased = r.Unreleased
		// A later owner may record another origin.
		l.Origin = nil
		return nil
	case l.Removal && CannotWrite(err):
		l.Pinned = true
		// Without a record, no other command owns the pod. Removing the record requires no disk
		// space.
		_ = removeOwner(l.layout, l.id)
		return nil
	}
	return fmt.Errorf("pod %s: take ownership: %w", l.id, err)
}

// successor returns the record of the next owner.
func (l *PodLock) successor(before *OwnerRecord, uid string, p Purpose) OwnerRecord {
	r := OwnerRecord{Incarnation: RandomHex(8)}
	if before != nil {
		if before.UID == uid {
			r = *before
		}
		r.Generation = before.Generation
		r.Origin = before.Origin
		r.Unreleased = before.Unreleased
		r.KilledAt = before.KilledAt
	}
	if l.Origin != nil {
		r.Origin = l.Origin
	}
	r.Schema = ownerSchema
	r.UID = uid
	r.Purpose = p
	r.Holder = l.holder
	r.Generation = r.next()
	return r
}

// makeClaim creates the command's claim file, or writes another incarnation into it.
func (l *PodLock) makeClaim(incarnation string) (err error) {
	text := []byte(claimText(l.keeps, incarnation))
	if l.Claim != nil {
		return l.Claim.set(text)
	}
	l.Claim, err = MakeLockedFile(l.layout.Claims(), claimPrefix(l.id), text)
	return err
}

// Update changes the owner record of this command's generation. It returns ErrChanged if another
// command owns the pod. The lock must be held.
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
	l.Incarnation = r.Incarnation
	l.Ending = r.Ending
	l.Stops = r.Stops
	l.Unreleased = r.Unreleased
	err = writeOwner(l.layout, l.id, *r)
	if l.Removal && CannotWrite(err) {
		l.Pinned, err = true, nil
	}
	return err
}

// SetOrigin sets the pod's origin after the command's definition has taken effect. It is called
// by Update, under the pod's lock.
func (l *PodLock) SetOrigin(r *OwnerRecord) {
	if l.NextOrigin != nil {
		r.Origin = l.NextOrigin
	}
}

// Disown deletes the owner record of a pod that the command has removed, if the command still
// owns it.
func (l *PodLock) Disown() error {
	if now, err := l.Current(); err != nil || now != l.Mine || l.Mine == (Generation{}) {
		return nil
	}
	return removeOwner(l.layout, l.id)
}

// Forget deletes the lock file of a removed pod and releases the lock. If another running command has a
// claim on the pod, the file remains until a sweep, because that command reads the name of the process
// that removed the pod from it.
func (l *PodLock) Forget() {
	if l == nil || l.Held == nil {
		return
	}
	if l.Pinned {
		l.forgetUncreated()
	}
	if !claimed(l.layout, l.id, l.Claim) {
		_ = os.Remove(l.path) // if the removal fails, a sweep repeats it
	}
	l.Release()
}

// forgetUncreated removes the owner record and the claim of a command that was killed before it created
// the directory of its pod. That pod would have replaced the removed pod, so it has a different UID.
// The lock must be held.
func (l *PodLock) forgetUncreated() {
	r, err := l.Owner()
	if err != nil || r == nil || r.Live(l.layout) || !identity.SafeUID(r.UID) {
		return
	}
	if _, err := os.Lstat(string(l.layout.Pod(r.UID))); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	_ = removeOwner(l.layout, l.id) // if the removal fails, a sweep repeats it
}

// ErrChanged reports that another podrun process changed the pod. The caller must observe the pod and
// make a new decision.
var ErrChanged = errors.New("another podrun process changed the pod")
