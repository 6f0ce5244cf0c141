package reconcile

import (
	"fmt"
	"maps"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// recordRestarts records, before containers are killed, that they are started again, and why;
// nothing if there is no cause. The pod's lock must be held.
func (w *state) recordRestarts(cause lifecycle.RestartCause, ids ...string) error {
	if cause == "" || len(ids) == 0 {
		return nil
	}
	more := map[string]lifecycle.RestartCause{}
	for _, id := range ids {
		more[id] = cause
	}
	return w.keepRestarts(w.obs.WithPendingRestarts(more))
}

// endRestarts forgets the pending restarts of containers that were started again.
func (w *state) endRestarts() error { return w.keepRestarts(w.obs.WithPendingRestarts(nil)) }

// keepRestarts writes the pending restarts if they have changed.
func (w *state) keepRestarts(all map[string]lifecycle.RestartCause) error {
	if maps.Equal(all, w.obs.PendingRestarts) {
		return nil
	}
	if err := store.KeepState(w.plan.Layout.PendingRestarts(w.plan.ID.UID), all, len(all) > 0); err != nil {
		return fmt.Errorf("pod %s: record which containers are restarted: %w", w.plan.ID, err)
	}
	w.obs.PendingRestarts = all
	return nil
}

// runningIDs are the IDs of the containers that run.
func (w *state) runningIDs() []string {
	var ids []string
	for _, c := range w.obs.Containers {
		if c.State == lifecycle.Running {
			ids = append(ids, c.ID)
		}
	}
	return ids
}
