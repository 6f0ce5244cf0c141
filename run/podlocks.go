package run

import (
	"context"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/manifest"
)

// podLocks are the locks of a command's pods, by namespace/name.
type podLocks map[string]*podLock

func (l podLocks) unlock() {
	for _, lock := range l {
		lock.unlock()
	}
}

// release ends the command's claims and frees the locks.
func (l podLocks) release() {
	for _, lock := range l {
		lock.release()
	}
}

// lockPods locks the pods of a command that brings them to a goal. While it waits
// for one it holds none: two commands with the same pods in any order, or one
// that must stop another's pod to make room, never wait for each other.
func (e *Engine) lockPods(ctx context.Context, objects *manifest.Objects) (podLocks, error) {
	locks := podLocks{}
	for _, p := range objects.Pods {
		id := identity.Pod{Namespace: p.Object.Namespace, Name: p.Object.Name}
		locks[id.String()] = e.podLock(id)
	}
	for {
		busy, owner, err := locks.tryAll()
		if err != nil || busy == nil {
			return locks, err
		}
		locks.unlock()
		if owner != nil {
			err = busy.awaitEnd(ctx, owner)
		} else {
			_, err = busy.take(ctx)
		}
		if err != nil {
			return locks, err
		}
	}
}

// tryAll takes those locks that are not held yet, up to one for which the command
// has to wait, which it returns: another process holds it, or a live owner, which
// it returns too, stops or removes the pod.
func (l podLocks) tryAll() (busy *podLock, owner *ownerRecord, err error) {
	for _, lock := range l {
		if lock.held == nil {
			if taken, err := lock.tryTake(); err != nil || !taken {
				return lock, nil, err
			}
		}
		if owner, err := lock.outranked(purposeRun); err != nil || owner != nil {
			return lock, owner, err
		}
	}
	return nil, nil, nil
}
