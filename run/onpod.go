package run

import (
	"context"
	"errors"
	"time"

	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// onPod runs do for a pod on this host, under its lock, and reads its status
// afterwards.
func (e *Engine) onPod(ctx context.Context, k Known, outcome Outcome, p store.Purpose, do func(*reconcile.Worker) error) Result {
	result := Result{ID: k.ID, Outcome: outcome}
	lock, err := e.Locks().LockPod(ctx, k.ID, p)
	defer lock.Release()
	if err != nil {
		result.Err = err
		return result
	}
	s, err := reconcile.Resume(ctx, &e.Node, k.ID, lock)
	if err != nil {
		result.Err = reconcile.OrEnded(ctx, err)
		return result
	}
	result.Err = errors.Join(do(s), s.Close())
	result.Status = s.Status()
	return result
}

// withTimeout bounds a command; a limit of 0 does not.
func withTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit, problem.TimeoutError{After: limit})
}
