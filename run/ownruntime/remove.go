package ownruntime

import (
	"context"
	"errors"

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
// the root directory. It does not call containerd. The layout's lock must be held.
func (r *Runtime) RemoveStored(ctx context.Context) error {
	n := &node.Node{Settings: r.settings, Warn: r.Warn, Command: r.Command, Invocation: store.RandomHex(8)}
	stored, err := store.StoredPods(n.Layout())
	if err != nil || len(stored) == 0 {
		return err
	}
	if err := embedded.End(ctx, r.layout); err != nil {
		return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "stop it", Err: err, Hint: "run 'podrun runtime down --force' again"}
	}
	var facts host.Facts
	if facts.Cgroup, err = discover.ReadCgroup(ctx, r.settings); err != nil {
		return err
	}
	var errs []error
	for _, id := range stored {
		errs = append(errs, removeStoredPod(ctx, n, id, facts))
	}
	return errors.Join(errs...)
}

func removeStoredPod(ctx context.Context, n *node.Node, id identity.Pod, facts host.Facts) error {
	lock, err := n.Locks().LockPod(ctx, id, store.PurposeRemove)
	defer lock.Release()
	if err != nil {
		return err
	}
	return reconcile.RemoveStored(ctx, n, observe.ReadKnown(n.Layout(), id), facts, lock)
}
