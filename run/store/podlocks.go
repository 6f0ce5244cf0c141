package store

import (
	"context"

	"github.com/podrun/podrun/internal/identity"
)

// PodLocks are the locks of a command's pods, by namespace/name.
type PodLocks map[string]*PodLock

// Unlock releases the locks that are held.
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

// LockPods locks the pods of a command that brings them to a goal. While it waits
// for one lock it holds none: two commands with the same pods in any order, or
// one that preempts another's pod, never wait for each other. The caller calls
// Release, also after an error, which is one of Lock.
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

// tryAll takes those locks that are not held yet, up to one for which the command
// has to wait, which it returns: another process holds it, or a live owner, which
// it returns too, stops or removes the pod.
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
