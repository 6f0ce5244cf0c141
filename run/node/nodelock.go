package node

import (
	"context"
	"time"

	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/store"
)

// UnderNodeLock calls do while it holds the node's lock, which covers admission,
// reservations and the control groups that pods share: nothing slow. The error is
// do's, or the cause that ended ctx.
func (n *Node) UnderNodeLock(ctx context.Context, do func() error) error {
	return n.underNodeLock(ctx, store.TryLock, do)
}

// RemoveUnderNodeLock is UnderNodeLock for a removal, which must also work if the file
// system cannot be written (EROFS, ENOSPC, EDQUOT).
func (n *Node) RemoveUnderNodeLock(ctx context.Context, do func() error) error {
	return n.underNodeLock(ctx, store.TryLockReadOnly, do)
}

func (n *Node) underNodeLock(ctx context.Context, try func(path, who string) (*store.FileLock, error), do func() error) error {
	path := n.Layout().NodeLock()
	begun, reported := time.Now(), n.Patient
	l, err := store.AwaitLock(ctx, path, nil, func() (*store.FileLock, error) {
		l, err := try(path, n.Holder())
		if l == nil && err == nil && !reported && time.Since(begun) > nodeLockPatience {
			n.SendWarnings(problem.List{{Object: "node", Message: "waiting for " + store.ShownHolder(store.Holder(path)), Warning: true}})
			reported = true
		}
		return l, err
	})
	if err != nil {
		return err
	}
	defer l.Unlock()
	return do()
}

// nodeLockPatience is how long a command waits for the node's lock without a word:
// whoever holds it for longer is stopped, or its disk is slow.
const nodeLockPatience = time.Second
