package reconcile

import (
	"context"
	"errors"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/store"
)

// ensureOwned makes this operation the owner of the pod, or lets it follow the live command that owns the
// pod. The lock must be held. The error explains why neither is possible. If it is store.ErrChanged, the
// operation must make a new decision.
func (l *loop) ensureOwned(ctx context.Context) (owns bool, err error) {
	s, err := l.lease.CheckOwnership(ctx)
	switch {
	case err != nil || s.Owned:
		return s.Owned, err
	case s.Live && !l.policy.follow:
		return false, ErrOwned
	}
	if err := l.takeDefinition(ctx, s.By); err != nil || s.Live {
		return false, err
	}
	if err := l.lease.Acquire(store.PurposeRun); err != nil {
		return false, err
	}
	return true, l.lease.Refresh(ctx)
}

// takeDefinition ensures that the plan matches the definition of the pod on this host, which another
// command may have updated in place. A command that supervises the pod adopts the new definition. A
// command that was applying the old definition ends with an error.
func (l *loop) takeDefinition(ctx context.Context, by *store.OwnerRecord) error {
	c, err := store.ReadCheckpoint(l.pod.Plan.Layout, l.pod.Plan.ID.UID)
	if err != nil {
		return err
	}
	if c == nil {
		return l.lease.Deleted()
	}
	if c.SecretsLost {
		// the Secrets as they were when this command planned the pod
		c.Secrets = l.pod.Plan.Checkpoint.Secrets
		c.SecretsLost = false
	}
	live, bound, frozen := c.Diff(l.pod.Plan.Checkpoint)
	if len(manifest.Changes(c.Pod, l.pod.Plan.Checkpoint.Pod))+len(live)+len(bound)+len(frozen) == 0 {
		return nil
	}
	// Ephemeral containers that another command added do not count as a difference.
	mine := manifest.WithEphemeral(l.pod.Plan.Checkpoint.Pod, c.Pod.Spec.EphemeralContainers)
	if !l.policy.adopt && len(manifest.Changes(c.Pod, mine))+len(live)+len(bound)+len(frozen) > 0 {
		return l.superseded(by)
	}
	facts, err := l.pod.Node.HostFacts(ctx)
	if err != nil {
		return err
	}
	plan, problems := pod.Replan(l.pod.Node, c, facts, l.pod.Node.AppliedSettings(by))
	if err := problem.Refuse(problem.Refused, problems); err != nil {
		return err
	}
	l.pod.Plan = plan
	l.start.Images.Reset()
	return nil
}

// supersededError means that another podrun process has changed the definition of the pod.
type supersededError struct{ by string }

// Error returns a message that names the process that changed the pod.
func (e supersededError) Error() string { return "was changed by " + e.by }

// IsSuperseded reports whether an error means that another command changed the definition of the pod
// while this command was applying its own. It returns false for nil.
func IsSuperseded(err error) bool {
	_, ok := errors.AsType[supersededError](err)
	return ok
}

// superseded returns the error for a command whose pod another command has changed.
func (l *loop) superseded(by *store.OwnerRecord) error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + l.pod.Plan.ID.String(),
		Err:  supersededError{by.Shown()},
		Hint: "run 'podrun get' to show the current pod, or apply this manifest again to restore its definition"}
}
