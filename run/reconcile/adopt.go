package reconcile

import (
	"context"
	"fmt"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// own ensures, under the lock, that this operation owns the pod, or follows the live command
// that does. An error explains why it can do neither; store.ErrChanged means that it must
// decide again.
func (w *Worker) own(ctx context.Context) (owns bool, err error) {
	s, err := w.lease.Standing(ctx)
	switch {
	case err != nil || s.Owned:
		return s.Owned, err
	case s.Live && !w.policy.follow:
		return false, ErrOwned
	}
	if err := w.takeDefinition(ctx, s.By); err != nil || s.Live {
		return false, err
	}
	if err := w.lease.Acquire(store.PurposeRun); err != nil {
		return false, err
	}
	return true, w.lease.Refresh(ctx)
}

// takeDefinition makes sure that the plan is that of the pod on this host: another
// command may have updated it in place. A command that supervises the pod adopts
// the new definition; one that applied the old one ends.
func (w *Worker) takeDefinition(ctx context.Context, by *store.OwnerRecord) error {
	c, err := store.ReadCheckpoint(w.pod.Plan.Layout, w.pod.Plan.ID.UID)
	if err != nil {
		return err
	}
	if c == nil {
		return w.lease.Deleted()
	}
	if c.SecretsLost {
		c.Secrets, c.SecretsLost = w.pod.Plan.Checkpoint.Secrets, false // as they were
	}
	live, bound, frozen := c.Differ(w.pod.Plan.Checkpoint)
	if len(manifest.Changes(c.Pod, w.pod.Plan.Checkpoint.Pod))+len(live)+len(bound)+len(frozen) == 0 {
		return nil
	}
	// Ephemeral containers that another command added change nothing for this one.
	mine := manifest.WithEphemeral(w.pod.Plan.Checkpoint.Pod, c.Pod.Spec.EphemeralContainers)
	if !w.policy.adopt && len(manifest.Changes(c.Pod, mine))+len(live)+len(bound)+len(frozen) > 0 {
		return w.superseded(by)
	}
	facts, err := w.pod.Node.HostFacts(ctx)
	if err != nil {
		return err
	}
	plan, problems := pod.Replan(w.pod.Node, c, facts, w.pod.Node.AppliedSettings(by))
	if err := problem.Refuse(problem.Refused, problems); err != nil {
		return err
	}
	w.pod.Plan = plan
	w.start.Images.Reset()
	return nil
}

// superseded is the error of an apply of a pod that another command has changed.
func (w *Worker) superseded(by *store.OwnerRecord) error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + w.pod.Plan.ID.String(),
		Err:  fmt.Errorf("was changed by %s", by.Shown()),
		Hint: "'podrun get' shows the pod as it is now; apply this manifest again to go back to it"}
}
