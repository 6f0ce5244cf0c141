package run

import (
	"context"
	"errors"

	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// onPod calls do for a pod on this host, under the pod's lock, and then reads the pod's
// status.
func onPod(ctx context.Context, n *node.Node, k Known, outcome Outcome, locks store.Locks, p store.Purpose, do func(*reconcile.Worker) error) Result {
	result := Result{ID: k.ID, Outcome: outcome}
	lock, err := locks.LockPod(ctx, k.ID, p)
	defer lock.Release()
	if err != nil {
		result.Err = err
		return result
	}
	s, err := reconcile.Resume(ctx, n, k.ID, lock)
	if err != nil {
		result.Err = reconcile.ReadHostError(ctx, err)
		return result
	}
	result.Err = errors.Join(do(s), s.Close())
	result.Status = s.Status()
	return result
}
