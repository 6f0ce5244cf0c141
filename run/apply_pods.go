package run

import (
	"context"
	"errors"
	"sync"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// ApplyPods starts pods and waits until each pod has reached the goal o.Wait, or has started if o.Wait
// is not set. It validates and admits all pods before the first side effect. If ApplyPods returns an
// error without results, it has started no pod. The error is of kind Refused (with every reason),
// Deadline or Runtime, or it is the cause that ended ctx. Otherwise it has started the pods
// concurrently, each with its own rollback. Each pod has one result, with its error, in the order
// of objects.
func ApplyPods(ctx context.Context, n *node.Node, objects *manifest.Objects, o ApplyOptions) ([]Result, error) {
	ctx, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	locks, err := n.LockPods(ctx, objects)
	defer locks.Release()
	if err != nil {
		return nil, err
	}
	if o.New {
		if err := CheckNew(ctx, n, objects, o.NewHint); err != nil {
			return nil, reconcile.ReadHostError(ctx, err)
		}
	}
	ended, err := recordWorkloads(ctx, n, objects)
	if err != nil {
		return nil, errors.Join(err, ended(true))
	}
	results, err := applyLocked(ctx, n, objects, locks, o)
	if err != nil {
		return nil, errors.Join(err, ended(true))
	}
	if err := ended(false); err != nil {
		n.WarnOnce(problem.WarningOf(err))
	}
	return results, nil
}

// applyLocked implements ApplyPods; the pods' locks must be held.
func applyLocked(ctx context.Context, n *node.Node, objects *manifest.Objects, locks store.PodLocks, o ApplyOptions) ([]Result, error) {
	back, err := newRestoration(n, objects, o)
	if err != nil {
		return nil, err
	}
	targets, err := n.Admit(ctx, objects, locks, o.Admit())
	if err != nil {
		return nil, reconcile.ReadHostError(ctx, err)
	}
	defer n.Settle()
	workers := reconcile.NewWorkers(n, targets, objects, locks)
	results := make([]Result, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() {
			defer workers[i].Release()
			results[i] = workers[i].Apply(ctx, t, o)
		})
	}
	wg.Wait()
	back.restoreFailed(ctx, targets, results)
	return results, nil
}
