package node

import (
	"context"

	"github.com/podrun/podrun/run/store"
)

// UnderNodeLock calls do while it holds the node's lock, which covers admission,
// reservations and the control groups that pods share: nothing slow. The error is
// do's, or the cause that ended ctx.
func (n *Node) UnderNodeLock(ctx context.Context, do func() error) error {
	l, err := store.Lock(ctx, n.Layout().NodeLock(), n.Holder(), nil)
	if err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}

// RemoveUnderNodeLock is UnderNodeLock for a removal, which must also work where
// the file system takes no more writes (EROFS, ENOSPC, EDQUOT).
func (n *Node) RemoveUnderNodeLock(ctx context.Context, do func() error) error {
	path := n.Layout().NodeLock()
	l, err := store.AwaitLock(ctx, path, nil, func() (*store.FileLock, error) { return store.TryLockReadOnly(path, n.Holder()) })
	if err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}
