package reconcile

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// GraceOf returns the grace period with which a command stops or removes a pod: the command's own, or
// the pod's. The pod may be nil.
func GraceOf(p *corev1.Pod, grace *time.Duration) time.Duration {
	if grace != nil {
		return *grace
	}
	return pod.GraceOf(p)
}

// Stop stops the pod until a command starts it, and keeps its directory, logs and the records of its
// containers. A non-nil grace replaces the pod's grace period. The error is of kind Runtime or
// Deadline, or the cause that ended ctx.
func (w *Worker) Stop(ctx context.Context, grace *time.Duration) error {
	if err := w.lease.Acquire(store.PurposeStop); err != nil {
		return err
	}
	period := w.pod.GracePeriod()
	if grace != nil {
		period = *grace
	}
	id := w.pod.Plan.ID
	// podrun records the stop first. Otherwise a command that waits for the pod would observe that
	// its containers exit for no known reason.
	if err := w.pod.MarkStopped("was stopped by "+store.ShownHolder(w.pod.Node.Holder()), "run 'podrun start "+id.Name+" -n "+id.Namespace+"' to start it again", !node.HasEnded(w.pod.Spec(), w.pod.Observed)); err != nil {
		return pod.RuntimeError(id, err)
	}
	if err := w.stop.Owned(ctx, period); err != nil {
		return w.loop.explain(ctx, w.pod.OfRuntime(err))
	}
	return nil
}
