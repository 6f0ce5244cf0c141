package run

import (
	"context"
	"sync"

	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/reconcile"
)

// Apply brings pods to be started. Everything is validated and admitted before
// the first side effect: an error that comes with no results refused them all.
// Then the pods are started side by side, each with its own rollback; their
// errors are in the results.
func (e *Engine) Apply(ctx context.Context, objects *manifest.Objects, o ApplyOptions) ([]Result, error) {
	ctx, cancel := withTimeout(ctx, o.Timeout)
	defer cancel()
	locks, err := e.LockPods(ctx, objects)
	defer locks.Release()
	if err != nil {
		return nil, err
	}
	targets, err := e.Admit(ctx, objects, locks, o.Admit())
	if err != nil {
		return nil, reconcile.OrEnded(ctx, err)
	}
	workers := reconcile.NewWorkers(&e.Node, targets, objects, locks)
	results := make([]Result, len(targets))
	var wg sync.WaitGroup
	for i, t := range targets {
		wg.Go(func() {
			defer workers[i].Release()
			results[i] = workers[i].Apply(ctx, t, o)
		})
	}
	wg.Wait()
	return results, nil
}
