package reconcile

import (
	"context"
	"time"

	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/store"
)

// Attend keeps a pod as its definition says until the goal holds or the pod has
// ended. It does not ask for the pod to exist: it follows another command's
// update, and ends with an error when the pod is stopped or deleted.
func (s *Worker) Attend(ctx context.Context, goal lifecycle.Goal) error {
	s.adopts, s.attends = true, true
	if err := s.wasStopped(); err != nil {
		return err
	}
	_, err := s.until(ctx, goal)
	return err
}

// Stop stops the pod until a command starts it, and keeps its directory, logs and
// the records of its containers. grace replaces the pod's own grace period; nil
// for that.
func (s *Worker) Stop(ctx context.Context, grace *time.Duration) error {
	if err := s.acquire(store.PurposeStop); err != nil {
		return err
	}
	period := s.gracePeriod()
	if grace != nil {
		period = *grace
	}
	id := s.plan.ID
	// Written first: a command that waits for the pod sees its containers end.
	if err := s.markStopped("was stopped by "+store.ShownHolder(s.Holder()), "'podrun start "+id.Name+" -n "+id.Namespace+"' starts it again"); err != nil {
		return RuntimeError(id, err)
	}
	if err := s.stopOwned(ctx, period); err != nil {
		return s.orInterrupted(ctx, s.ofRuntime(err))
	}
	return nil
}

// Close closes the pod's journal.
func (s *Worker) Close() error { return s.journal.Close() }

// Release releases the pod's lock and what it reserves.
func (s *Worker) Release() { s.lock.Release() }
