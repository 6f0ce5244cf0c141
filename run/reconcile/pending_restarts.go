package reconcile

import (
	"fmt"
	"maps"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// recordRestarts records, before containers are killed, that they are started again, and why;
// nothing if there is no cause. The pod's lock must be held.
func (w *Pod) RecordRestarts(cause lifecycle.RestartCause, ids ...string) error {
	if cause == "" || len(ids) == 0 {
		return nil
	}
	return w.keepRestarts(w.Observed.WithPendingRestarts(cause, ids...))
}

// endRestarts forgets the pending restarts that are done.
// Ending are the containers that are being stopped (store.OwnerRecord).
func (w *Pod) EndRestarts(ending map[string]time.Time) error {
	return w.keepRestarts(w.Observed.CurrentRestarts(ending))
}

// keepRestarts writes the pending restarts if they have changed. On a disk that cannot be
// written, only this process knows them: an unhealthy container is killed all the same.
func (w *Pod) keepRestarts(all map[string]lifecycle.PendingRestart) error {
	if maps.Equal(all, w.Observed.PendingRestarts) {
		return nil
	}
	err := store.KeepState(w.Plan.Layout.PendingRestarts(w.Plan.ID.UID), all, len(all) > 0)
	if err != nil {
		err = fmt.Errorf("pod %s: record which containers are restarted: %w", w.Plan.ID, err)
	}
	switch {
	case err == nil:
		w.unrecorded = nil
	case !store.CannotWrite(err):
		return err
	default:
		if w.unrecorded == nil {
			w.Node.SendWarnings(problem.List{problem.WarningOf(err)})
		}
		w.unrecorded = all
	}
	w.Observed.PendingRestarts = all
	return nil
}

// runningIDs are the IDs of the containers that run.
func (w *Pod) RunningIDs() []string {
	var ids []string
	for _, c := range w.Observed.Containers {
		if c.State == lifecycle.Running {
			ids = append(ids, c.ID)
		}
	}
	return ids
}
