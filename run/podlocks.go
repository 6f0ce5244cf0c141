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

// lockPods locks the pods of a command. While it waits for one it holds none:
// two commands with the same pods in any order, or one that must stop another's
// pod to make room, never wait for each other.
func (e *Engine) lockPods(ctx context.Context, objects *manifest.Objects) (podLocks, error) {
	locks := podLocks{}
	for _, p := range objects.Pods {
		id := identity.Pod{Namespace: p.Object.Namespace, Name: p.Object.Name}
		locks[id.String()] = e.podLock(id)
	}
	for {
		busy, err := locks.tryAll()
		if err != nil || busy == nil {
			return locks, err
		}
		locks.unlock()
		if _, err := busy.take(ctx); err != nil {
			return locks, err
		}
	}
}

// tryAll takes those locks that are not held yet, up to one that somebody else
// holds, which it returns.
func (l podLocks) tryAll() (busy *podLock, err error) {
	for _, lock := range l {
		if lock.held != nil {
			continue
		}
		if taken, err := lock.tryTake(); err != nil || !taken {
			return lock, err
		}
	}
	return nil, nil
}
