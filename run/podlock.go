package run

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
)

// podLock is the lock of a pod, which covers short calls and never a wait, with
// the generation under which a command owns the pod.
type podLock struct {
	engine *Engine
	path   string
	id     identity.Pod
	held   *fileLock
	// removal says that the command removes the pod: it goes on where the file
	// system takes no more writes.
	removal bool
	// mine is the generation that this command took last; seen is the pod's when
	// the lock was last held.
	mine, seen Generation
	// incarnation is that of the pod that this command owned last.
	incarnation string
	// keeps says that the command wants the pod to be on this host.
	keeps bool
	// ending are the containers that an owner told to stop (ownerRecord.Ending).
	ending map[string]time.Time
	claim  *lockedFile
	// pinned says that no generation could be written down, or that the pod's is
	// about another UID: the lock is kept during long calls too.
	pinned bool
}

// podLock is the lock of a pod, not yet taken.
func (e *Engine) podLock(id identity.Pod) *podLock {
	return &podLock{engine: e, path: e.layout().PodLock(id), id: id}
}

// lockPod takes the lock of a pod for a command with that purpose, which waits
// for a live owner whose purpose ranks higher. The caller calls release.
func (e *Engine) lockPod(ctx context.Context, id identity.Pod, p purpose) (*podLock, error) {
	l := e.podLock(id)
	l.removal = p == purposeRemove
	for {
		if _, err := l.take(ctx); err != nil {
			return l, err
		}
		busy, err := l.outranked(p)
		if err != nil || busy == nil {
			return l, err
		}
		l.unlock()
		if err := l.awaitEnd(ctx, busy); err != nil {
			return l, err
		}
	}
}

// outranked returns the live owner for which a command with that purpose has to
// wait, or nil. The lock must be held.
func (l *podLock) outranked(p purpose) (*ownerRecord, error) {
	r, err := l.owner()
	if l.removal || err == nil && (!r.outranks(p) || r.Generation == l.mine || !l.live(r)) {
		return nil, nil
	}
	return r, err
}

// ownerPoll is how often a process looks at who owns a pod while it waits.
const ownerPoll = 100 * time.Millisecond

// awaitEnd waits, without the lock, until an owner's command has ended or the
// pod has another owner.
func (l *podLock) awaitEnd(ctx context.Context, r *ownerRecord) error {
	l.engine.warn(problem.List{{Object: "pod " + l.id.String(), Message: "waiting for " + r.shown(), Warning: true}})
	for {
		now, err := l.owner()
		if err != nil || now == nil || now.Generation != r.Generation || now.Doomed != r.Doomed || !l.live(now) {
			return err
		}
		if sleep(ctx, ownerPoll) != nil {
			return fmt.Errorf("pod %s: %w", l.id, lockWaitEnded(ctx, r.shown()))
		}
	}
}

// live tells whether an owner's process still works on the pod.
func (l *podLock) live(r *ownerRecord) bool { return r.live(l.engine.layout()) }

// take locks, and tells whether another process held the lock since this one
// freed it.
func (l *podLock) take(ctx context.Context) (changed bool, err error) {
	held, err := awaitLock(ctx, l.path, func(holder string) {
		l.engine.warn(problem.List{{Object: "pod " + l.id.String(), Message: "waiting for " + holder, Warning: true}})
	}, l.try)
	if err != nil {
		return false, fmt.Errorf("pod %s: %w", l.id, err)
	}
	l.held = held
	return held.before != l.engine.who(), nil
}

// tryTake locks if no other process holds the lock.
func (l *podLock) tryTake() (bool, error) {
	held, err := l.try()
	if err != nil {
		return false, fmt.Errorf("pod %s: %w", l.id, err)
	}
	l.held = held
	return held != nil, nil
}

func (l *podLock) try() (*fileLock, error) {
	if l.removal {
		return tryLockReadOnly(l.path, l.engine.who())
	}
	return tryLock(l.path, l.engine.who())
}

// unlock frees the lock, if it is held.
func (l *podLock) unlock() {
	if l != nil {
		l.held.unlock()
		l.held = nil
	}
}

// release ends the command's claim and frees the lock. The generation stays on
// disk and is no longer live.
func (l *podLock) release() {
	if l != nil {
		l.claim.release()
		l.claim = nil
		l.unlock()
	}
}

// owner reads the pod's owner record. It changes only under the lock.
func (l *podLock) owner() (*ownerRecord, error) { return readOwner(l.engine.layout(), l.id) }

// current is the generation of the pod now; the zero value if it has none.
func (l *podLock) current() (Generation, error) {
	r, err := l.owner()
	if err != nil || r == nil {
		return Generation{}, err
	}
	return r.Generation, nil
}

// owned tells whether this command owns the pod: the generation that it took is
// the current one. Without the lock, it is true of a moment ago.
func (l *podLock) owned() bool {
	if l.pinned {
		return l.held != nil
	}
	g, err := l.current()
	return err == nil && l.mine != Generation{} && g == l.mine
}

// acquire makes this command the owner of the pod with that UID, by a new
// generation. Fresh says that the pod is a new one. The lock must be held.
//
// A removal owns the pod without a generation where none can be written down, or
// where that of the name is about another UID, and keeps the lock instead.
func (l *podLock) acquire(uid string, p purpose, keeps, fresh bool) error {
	before, err := l.owner()
	if err != nil && !l.removal {
		return err
	}
	if l.removal && before != nil && before.UID != uid {
		l.pinned = true
		return nil
	}
	r := l.successor(before, uid, p)
	if fresh {
		r.Incarnation, r.Fresh, r.Doomed, r.Ending = randomHex(8), true, false, nil
	}
	l.keeps = keeps
	err = l.makeClaim(r.Incarnation)
	if err == nil {
		r.Claim = l.claim.name()
		err = writeOwner(l.engine.layout(), l.id, r)
	}
	switch {
	case err == nil:
		l.mine, l.seen, l.incarnation, l.ending = r.Generation, r.Generation, r.Incarnation, r.Ending
		return nil
	case l.removal && cannotWrite(err):
		l.pinned = true
		_ = removeOwner(l.engine.layout(), l.id) // so that no other command owns the pod; it needs no space
		return nil
	}
	return fmt.Errorf("pod %s: take ownership: %w", l.id, err)
}

// successor is the record of the owner that follows.
func (l *podLock) successor(before *ownerRecord, uid string, p purpose) ownerRecord {
	r := ownerRecord{Incarnation: randomHex(8)}
	if before != nil {
		if before.UID == uid {
			r = *before
		}
		r.Generation = before.Generation
	}
	r.Schema, r.UID, r.Purpose, r.Holder, r.Generation = ownerSchema, uid, p, l.engine.who(), r.next()
	return r
}

// makeClaim makes the command's claim file, or writes another incarnation into it.
func (l *podLock) makeClaim(incarnation string) (err error) {
	text := []byte(claimText(l.keeps, incarnation))
	if l.claim != nil {
		return l.claim.set(text)
	}
	l.claim, err = makeLockedFile(l.engine.layout().Claims(), claimPrefix(l.id), text)
	return err
}

// update changes the record of this command's own generation; the error is
// errChanged where another command owns the pod. The lock must be held.
func (l *podLock) update(change func(*ownerRecord)) error {
	if l.pinned {
		return nil
	}
	r, err := l.owner()
	switch {
	case err != nil:
		return err
	case r == nil || r.Generation != l.mine:
		return errChanged
	}
	before := r.Incarnation
	if change(r); r.Incarnation != before {
		if err := l.makeClaim(r.Incarnation); err != nil {
			return err
		}
	}
	l.incarnation, l.ending = r.Incarnation, r.Ending
	err = writeOwner(l.engine.layout(), l.id, *r)
	if l.removal && cannotWrite(err) {
		l.pinned, err = true, nil
	}
	return err
}

// disown removes the record of a pod of which nothing is left, if it is about
// that pod.
func (l *podLock) disown() error {
	if now, err := l.current(); err != nil || now != l.mine || l.mine == (Generation{}) {
		return nil
	}
	return removeOwner(l.engine.layout(), l.id)
}

// forget releases the lock of a pod of which nothing is left, and removes its file.
func (l *podLock) forget() {
	if l != nil && l.held != nil {
		_ = os.Remove(l.path) // it stays then, and is swept another time
		l.release()
	}
}
