package reconcile

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/run/lifecycle"
)

// Attend supervises a pod until it reaches the goal or has ended. If another command updates the
// pod, Attend continues with the new definition. The error is of kind Failed if another command
// stopped or deleted the pod, or if a container cannot be started. Otherwise the error is of kind
// Deadline or Runtime, or the cause that ended ctx.
func (w *Worker) Attend(ctx context.Context, goal lifecycle.Goal) error {
	w.lease.Attends = true
	if err := w.pod.WasStopped(); err != nil {
		return err
	}
	_, err := w.loop.until(ctx, goal)
	return w.loop.explain(ctx, err)
}

// Close closes the pod's journal. It returns the error of the last write.
func (w *Worker) Close() error {
	w.loop.start.Images.Forget(w.pod.Journal)
	return w.pod.Journal.Close()
}

// closeAfter calls Close at the end of a command that ends with err, which may be nil. It returns err
// if closing succeeds; otherwise it joins both errors.
func (w *Worker) closeAfter(err error) error {
	if closing := w.Close(); closing != nil {
		return errors.Join(err, closing)
	}
	return err
}

// Release releases the pod's lock and its reservations.
func (w *Worker) Release() { w.lease.Lock.Release() }

// Status computes the pod's status from the last observation.
func (w *Worker) Status() corev1.PodStatus { return w.pod.Status() }
