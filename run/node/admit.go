package node

import (
	"context"
	"errors"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// AdmitOptions are the options of Admit.
type AdmitOptions struct {
	PrepareOptions
	Continue bool // if some pods are refused, Admit still admits the others
	// Origin is recorded for the pods, together with the node's settings. If Origin is
	// FromCheckpoint, the record of a pod still names the command that applied the pod, because the
	// definition of the pod is not new.
	Origin         store.Origin
	FromCheckpoint bool
}

// Admit reads the host, plans all pods and reserves the resources of the admitted ones, under the
// node's lock. An error of kind Refused lists every reason why a pod cannot run. With o.Continue, the
// reasons are in the pod's Target instead. If Admit returns an error, nothing remains reserved. Admit
// may send a warning about the runtime's sandbox image after it has returned, but not after Settle
// has returned.
func (n *Node) Admit(ctx context.Context, objects *manifest.Objects, locks store.PodLocks, o AdmitOptions) (targets []prepare.Target, err error) {
	wanted := prepare.NewWanted(objects, n.Settings, o.AllowKubelet)
	var problems problem.List
	err = n.UnderNodeLock(ctx, func() error {
		o.Now = time.Now()
		seen, err := n.Read(ctx, wanted, o.Facts)
		if err != nil {
			return err
		}
		targets, problems = n.plan(ctx, seen, objects, o.PrepareOptions)
		if !o.Continue || len(targets) == 0 {
			if err := problem.Refuse(problem.Refused, problems); err != nil {
				return err
			}
		}
		return n.reserve(ctx, seen.Facts.PodDirs, targets, locks, o)
	})
	// Send the warnings without the lock: writing to stderr may block, and other podrun processes
	// would wait for the lock.
	n.SendWarnings(problems.Warnings())
	if err != nil {
		return nil, err
	}
	if err := syncDevices(targets); err != nil {
		return nil, errors.Join(err, n.unreserve(ctx, targets, locks))
	}
	n.background.Go(func() { n.SendWarnings(n.sandboxImage(ctx, targets)) })
	return targets, nil
}
