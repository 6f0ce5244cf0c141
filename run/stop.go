package run

import (
	"context"

	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// Stop stops pods and keeps their directories, logs and container records. Only Start or another
// Apply starts them again. It returns one result per pod, which contains the pod's error.
func Stop(ctx context.Context, n *node.Node, pods []Known, o DeleteOptions) []Result {
	ctx, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return node.InParallel(pods, func(k Known) Result { return stopOne(ctx, n, k, o) })
}

func stopOne(ctx context.Context, n *node.Node, k Known, o DeleteOptions) Result {
	return onPod(ctx, n, k, OutcomeStopped, n.Locks().WithGrace(reconcile.GraceOf(k.Pod, o.Grace)), store.PurposeStop, func(s *reconcile.Worker) error { return s.Stop(ctx, o.Grace) })
}
