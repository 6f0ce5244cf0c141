package reconcile

import (
	"context"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/stop"
	"github.com/podrun/podrun/run/store"
)

// Remove removes a pod and everything that podrun created for it; k.Pod may be nil. An interrupted
// removal can be repeated. The result contains the pod's status after all containers have stopped.
// The error in the result is of kind Refused if podrun did not create the sandbox. Otherwise it is
// of kind Runtime, or the cause that ended ctx.
func Remove(ctx context.Context, n *node.Node, k observe.Known, facts host.Facts, lock *store.PodLock, o stop.RemoveOptions) Result {
	r := stop.NewRemover(pod.Known(n, k, facts), lock)
	result := Result{ID: k.ID, Outcome: OutcomeDeleted}
	o.Stopped = func() {
		pod := r.Pod.View(observe.Known{ID: k.ID, Pod: k.Pod}, true)
		result.Status = pod.Status
		result.Containers = lifecycle.EndedContainers(pod, pod.Status)
		if o.Report != nil {
			o.Report(pod.Status)
		}
	}
	if err := explain(ctx, r.Pod, r.Owned(ctx, o)); err != nil {
		result.Outcome = OutcomeFailed
		result.Err = err
	}
	return result
}

// RemoveStored removes a pod after the runtime was stopped with all its containers. It kills the
// processes that remain in the pod's cgroup, and removes the cgroup, the logs and the directory. It
// can be repeated. k.Pod may be nil. The error is of kind Runtime, or the cause that ended ctx.
func RemoveStored(ctx context.Context, n *node.Node, k observe.Known, facts host.Facts, lock *store.PodLock) error {
	err := stop.NewRemover(pod.Known(n, k, facts), lock).Stored(ctx)
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return pod.RuntimeError(k.ID, err)
}
