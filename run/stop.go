package run

import (
	"context"

	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/reconcile"
	"github.com/podrun/podrun/run/store"
)

// StopInput is the input of Stop.
type StopInput struct {
	Targets
	Options DeleteOptions
}

// Stop stops pods and keeps their directories, logs and container records. Only Start or another
// Apply starts them again. The report has one entry for each pod, with the pod's error.
func Stop(ctx context.Context, n *node.Node, in StopInput) (Report, error) {
	pods, err := in.work(ctx, n)
	if err != nil {
		return Report{}, err
	}
	return ReportOf(StopPods(ctx, n, pods, in.Options)), nil
}

// StopPods is Stop for pods that were found. It returns one result per pod.
func StopPods(ctx context.Context, n *node.Node, pods []Known, o DeleteOptions) []Result {
	ctx, cancel := wait.WithTimeout(ctx, o.Timeout)
	defer cancel()
	return node.InParallel(pods, func(k Known) Result {
		locks := n.Locks().WithGrace(reconcile.GraceOf(k.Pod, o.Grace))
		return onPod(ctx, n, k, OutcomeStopped, locks, store.PurposeStop, func(s *reconcile.Worker) error { return s.Stop(ctx, o.Grace) })
	})
}
