package run

import (
	"context"

	"github.com/podrun/podrun/run/store"
)

// underNodeLock does something while holding the node's lock, which covers
// admission, reservations and the control groups that pods share: nothing slow.
func (e *Engine) underNodeLock(ctx context.Context, do func() error) error {
	l, err := store.Lock(ctx, e.layout().NodeLock(), e.who(), nil)
	if err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}

// removeUnderNodeLock is underNodeLock for a removal, which goes on where the file
// system takes no more writes.
func (e *Engine) removeUnderNodeLock(ctx context.Context, do func() error) error {
	path := e.layout().NodeLock()
	l, err := store.AwaitLock(ctx, path, nil, func() (*store.FileLock, error) { return store.TryLockReadOnly(path, e.who()) })
	if err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}
