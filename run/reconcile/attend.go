package reconcile

import (
	"context"

	"github.com/podrun/podrun/run/lifecycle"
)

// Attend keeps a pod as its definition says until the goal holds or the pod has
// ended. It does not ask for the pod to exist: it follows another command's
// update, and ends with an error when the pod is stopped or deleted.
func (w *Worker) Attend(ctx context.Context, goal lifecycle.Goal) error {
	w.adopts, w.attends = true, true
	if err := w.wasStopped(); err != nil {
		return err
	}
	_, err := w.until(ctx, goal)
	return w.explain(ctx, err)
}

// Close closes the pod's journal.
func (w *Worker) Close() error {
	if w.puller != nil {
		w.puller.Forget(w.journal)
	}
	return w.journal.Close()
}

// Release releases the pod's lock and what it reserves.
func (w *Worker) Release() { w.lock.Release() }
