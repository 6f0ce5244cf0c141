package store

import (
	"context"

	"github.com/podrun/podrun/internal/identity"
)

// PodLocks are the locks of a command's pods, by namespace/name.
type PodLocks map[string]*PodLock

// Unlock releases the locks that the command holds.
func (l PodLocks) Unlock() {
	for _, lock := range l {
		lock.Unlock()
	}
}

// Release ends the command's claims and releases the locks.
func (l PodLocks) Release() {
	for _, lock := range l {
		lock.Release()
	}
}

// LockPods locks the given pods, one at a time, for a command that applies or restarts them. While it
// waits for one lock, it holds no other lock. Therefore commands never deadlock if they lock the same
// pods in different orders, or if one command preempts a pod of another. The caller must call Release,
// even after an error. The errors are those of Lock.
func (l Locks) LockPods(ctx context.Context, pods []identity.Pod) (PodLocks, error) {
	locks := PodLocks{}
	for _, id := range pods {
		locks[id.String()] = l.podLock(id)
	}
	for {
		busy, owner, err := locks.tryAll()
		if err != nil || busy == nil {
			return locks, err
		}
		locks.Unlock()
		if owner != nil {
			err = busy.AwaitEnd(ctx, owner)
		} else {
			_, err = busy.Take(ctx)
		}
		if err != nil {
			return locks, err
		}
	}
}

// tryAll takes the locks that the command does not hold yet. It stops at the first lock for which the command
// must wait, and returns that lock as busy. Either another process holds the lock, or a live owner is stopping
// or removing the pod; tryAll also returns such an owner.
func (l PodLocks) tryAll() (busy *PodLock, owner *OwnerRecord, err error) {
	for _, lock := range l {
		if lock.Held == nil {
			if taken, err := lock.tryTake(); err != nil || !taken {
				return lock, nil, err
			}
		}
		if owner, err := lock.outranked(PurposeRun); err != nil || owner != nil {
			return lock, owner, err
		}
	}
	return nil, nil, nil
}
