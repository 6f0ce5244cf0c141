package node

import (
	"context"

	"github.com/podrun/podrun/run/store"
)

// UnderNodeLock does something while holding the node's lock, which covers
// admission, reservations and the control groups that pods share: nothing slow.
func (n *Node) UnderNodeLock(ctx context.Context, do func() error) error {
	l, err := store.Lock(ctx, n.Layout().NodeLock(), n.Holder(), nil)
	if err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}

// RemoveUnderNodeLock is underNodeLock for a removal, which goes on where the file
// system takes no more writes.
func (n *Node) RemoveUnderNodeLock(ctx context.Context, do func() error) error {
	path := n.Layout().NodeLock()
	l, err := store.AwaitLock(ctx, path, nil, func() (*store.FileLock, error) { return store.TryLockReadOnly(path, n.Holder()) })
	if err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}
