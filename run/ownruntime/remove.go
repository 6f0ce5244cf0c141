package ownruntime

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/discover"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// RemoveStored stops the embedded runtime with all its containers, and removes the pods of
// the root directory. It does not call containerd. It returns one result for each pod, unless it could not stop the
// runtime. The layout's lock must be held.
func (r *Runtime) RemoveStored(ctx context.Context) ([]reconcile.Result, error) {
	n := nodeOf(r)
	stored, err := store.StoredPods(n.Layout())
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	if err := embedded.End(ctx, r.layout); err != nil {
		return nil, &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "stop it",
			Err: err, Hint: "run 'podrun runtime down --force' again"}
	}
	var facts host.Facts
	if facts.Cgroup, err = discover.ReadCgroup(ctx, r.settings); err != nil {
		return nil, err
	}
	var out []reconcile.Result
	for _, id := range stored {
		result := reconcile.Result{ID: id, Outcome: reconcile.OutcomeDeleted}
		if result.Err = removeStoredPod(ctx, n, id, facts); result.Err != nil {
			result.Outcome = reconcile.OutcomeFailed
		}
		out = append(out, result)
	}
	return out, nil
}

// sweep removes the locks and records of pods that a killed podrun left before it wrote a checkpoint.
func sweep(ctx context.Context, r *Runtime) error {
	n := nodeOf(r)
	if _, err := os.Lstat(string(n.Layout().Locks())); errors.Is(err, fs.ErrNotExist) {
		return nil // no command has changed this root directory yet
	}
	return n.RemoveUnderNodeLock(ctx, func() error { return store.SweepAll(n.Layout()) })
}

func nodeOf(r *Runtime) *node.Node {
	return &node.Node{Settings: r.settings, Warn: r.Warn, Command: r.Command, Invocation: store.RandomHex(8)}
}

func removeStoredPod(ctx context.Context, n *node.Node, id identity.Pod, facts host.Facts) error {
	lock, err := n.Locks().LockPod(ctx, id, store.PurposeRemove)
	defer lock.Release()
	if err != nil {
		return err
	}
	return reconcile.RemoveStored(ctx, n, observe.ReadKnown(n.Layout(), id), facts, lock)
}
