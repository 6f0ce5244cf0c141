package node

import (
	"context"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
)

// UnderNodeLock calls do while it holds the node's lock. This lock protects admission, reservations and the control
// groups that pods share. The function do must return soon. The error is the one from do, or the cause that ended
// ctx.
func (n *Node) UnderNodeLock(ctx context.Context, do func() error) error {
	return n.underNodeLock(ctx, store.TryLock, do)
}

// RemoveUnderNodeLock is UnderNodeLock for removals, which must succeed even if the file system is not
// writable (EROFS, ENOSPC, EDQUOT).
func (n *Node) RemoveUnderNodeLock(ctx context.Context, do func() error) error {
	return n.underNodeLock(ctx, store.TryLockReadOnly, do)
}

func (n *Node) underNodeLock(ctx context.Context, try func(path, who string) (*store.FileLock, error), do func() error) error {
	path := n.Layout().Locks().Node()
	if err := n.turn.take(ctx); err != nil {
		return waitEnded(store.LockWaitEnded(ctx, store.ShownHolder(store.Holder(path))))
	}
	defer n.turn.leave()
	begun, reported := time.Now(), n.Unattended
	l, err := store.AwaitLock(ctx, path, nil, func() (*store.FileLock, error) {
		l, err := try(path, n.Holder())
		if l == nil && err == nil && !reported && time.Since(begun) > reportNodeLockAfter {
			n.SendWarnings(problem.List{{Object: "node", Message: "waiting for " + store.ShownHolder(store.Holder(path)), Warning: true}})
			reported = true
		}
		return l, err
	})
	if err != nil {
		return waitEnded(err)
	}
	defer l.Unlock()
	return do()
}

// waitEnded adds the object "node" to an error that ended a wait for the node's lock.
func waitEnded(err error) error {
	e, ok := err.(*problem.Error)
	if !ok || e.Object != "" {
		return err
	}
	out := *e
	out.Object = "node"
	return &out
}

// turn lets the goroutines of this process wait for the node's lock one at a time, in order. podrun
// polls the lock, so if several pods of a command waited for it concurrently, they would delay each
// other. The zero value is ready to use.
type turn struct {
	once  sync.Once
	taken chan struct{}
}

// take waits until it is the caller's turn. If ctx ends first, it returns ctx.Err().
func (t *turn) take(ctx context.Context) error {
	t.once.Do(func() { t.taken = make(chan struct{}, 1) })
	select {
	// The caller gets its turn even if ctx has ended, so that it tries to acquire the lock once.
	case t.taken <- struct{}{}:
		return nil
	default:
	}
	select {
	case t.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *turn) leave() { <-t.taken }

// reportNodeLockAfter is how long a command waits for the node's lock before it reports which process
// holds the lock. A process that holds the lock for longer is suspended or has a slow disk.
const reportNodeLockAfter = time.Second
