package node

import (
	"context"
	"errors"
	"time"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// AdmitOptions are the options of Admit.
type AdmitOptions struct {
	PrepareOptions
	Continue bool // admit the other pods where some are refused
	// Origin is recorded for the pods; its settings are the node's. FromCheckpoint keeps the
	// recorded command of pods that were applied: their definition is not a new one.
	Origin         store.Origin
	FromCheckpoint bool
}

// Admit reads the host, decides about all pods and reserves the resources of
// those that are admitted, under the node's lock. An error of kind Refused names
// every reason why a pod cannot run; with o.Continue such a pod's Target has them
// instead. An error leaves nothing reserved. A warning about the runtime's sandbox image
// may come later, until Settle returns.
func (n *Node) Admit(ctx context.Context, objects *manifest.Objects, locks store.PodLocks, o AdmitOptions) (targets []prepare.Target, err error) {
	err = n.UnderNodeLock(ctx, func() (err error) {
		prepared := o.PrepareOptions
		prepared.Now = time.Now()
		var problems problem.List
		sweep := func(dirs host.PodDirs) error { return store.SweepDirs(n.Layout(), dirs) }
		if targets, problems, err = n.prepare(ctx, objects, prepared, sweep); err != nil {
			return err
		}
		n.SendWarnings(problems.Warnings())
		if !o.Continue || len(targets) == 0 {
			if err = problem.Refuse(problem.Refused, problems); err != nil {
				return err
			}
		}
		defer trace.Begin(ctx, "reserve", "")()
		for i := range targets {
			lock := locks[targets[i].Plan.ID.String()]
			if err = n.takeOrigin(targets[i], lock, o); err == nil {
				err = n.reserveTarget(targets[i], lock)
			}
			if err != nil {
				return errors.Join(err, n.unreserve(ctx, targets[:i+1], locks))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	n.asking.Go(func() { n.SendWarnings(n.sandboxImage(ctx, targets)) })
	return targets, nil
}
