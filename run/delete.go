package run

import (
	"context"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// DeleteOptions are the options of Delete.
type DeleteOptions struct {
	Timeout  time.Duration  // bounds the whole; 0 for no limit
	Grace    *time.Duration // instead of the pods' own; nil for those
	KeepLogs bool
	// Found means that the pods were selected by name, and all were found: nothing of
	// them was left by a killed command. Then leftovers of other pods stay until the next
	// command that reads all pods, and the time does not depend on how many there are.
	Found bool
}

// Delete removes pods with everything that podrun made for them, one result a pod.
// An interrupted removal can be repeated. Each result has the pod's status, and how
// its containers ended, as it was when all of it had stopped; neither where another
// command removed the pod. The error is of kind Runtime or Deadline, where the host
// could not be read, and nothing was removed; errors of single pods are in the
// results.
func (e *Engine) Delete(ctx context.Context, pods []Known, o DeleteOptions) ([]Result, error) {
	ctx, cancel := WithTimeout(ctx, o.Timeout)
	defer cancel()
	facts, err := discover.ReadBasics(ctx, e.Client, e.Settings)
	if err != nil {
		return nil, reconcile.OrEnded(ctx, err)
	}
	if !o.Found {
		if err := e.RemoveUnderNodeLock(ctx, func() error { return store.Sweep(e.Layout()) }); err != nil && !store.CannotWrite(err) {
			return nil, err
		}
	}
	// Pods of one name share a lock: they go one after the other.
	var names []string
	byName := map[string][]int{}
	for i, k := range pods {
		if name := k.ID.String(); len(byName[name]) == 0 {
			names = append(names, name)
		}
		byName[k.ID.String()] = append(byName[k.ID.String()], i)
	}
	results := make([]Result, len(pods))
	node.InParallel(names, func(name string) struct{} {
		for _, i := range byName[name] {
			results[i] = e.deleteOne(ctx, pods[i], facts, o)
		}
		return struct{}{}
	})
	return results, nil
}

func (e *Engine) deleteOne(ctx context.Context, k Known, facts host.Facts, o DeleteOptions) Result {
	lock, err := e.Locks().LockPod(ctx, k.ID, store.PurposeRemove)
	defer lock.Release()
	if err != nil {
		return Result{ID: k.ID, Outcome: OutcomeFailed, Err: err}
	}
	result := reconcile.Remove(ctx, &e.Node, k, facts, lock, reconcile.RemoveOptions{Grace: o.Grace, KeepLogs: o.KeepLogs})
	if result.Err == nil {
		lock.Forget()
	}
	return result
}
