package reconcile

import (
	"context"
	"errors"

	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
)

// RunOptions are the options of Run.
type RunOptions struct {
	ApplyOptions
	Replace bool // a live pod of the same name goes first, instead of being refused
	Keep    bool // leave the pods when they have ended
	// Started is called for each container that starts, with a channel that is
	// closed when it has ended. What it returns is called before the pod is
	// removed, and waits until the container's log was read.
	Started func(Log, <-chan struct{}) (drained func())
}

// RunResult is how a pod that was run to its end has ended.
type RunResult struct {
	Result
	Containers []lifecycle.Ended
}

// Run brings an admitted pod to its end and removes it.
func (s *Worker) Run(ctx context.Context, t prepare.Target, o RunOptions) RunResult {
	s.started, s.adopts = o.Started, true
	result := RunResult{Result: s.Apply(ctx, t, o.ApplyOptions)}
	result.Containers = lifecycle.EndedContainers(s.pod(), result.Status)
	if o.Keep {
		s.closeExits()
		s.drain()
		return result
	}
	err := s.runOver(ctx, &result)
	s.closeExits() // where the pod was left to another command
	s.drain()
	if err != nil {
		result.Err = errors.Join(result.Err, leftBehind(s.plan.ID, err))
	}
	return result
}

// runOver stops what still runs, on a context of its own, waits for the logs
// and removes the pod.
func (s *Worker) runOver(ctx context.Context, result *RunResult) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), UndoTimeout+s.gracePeriod())
	defer cancel()
	if s.lock.Held == nil {
		if _, err := s.lock.Take(ctx); err != nil {
			return err
		}
	}
	if left, err := s.leftToOther(ctx); left || err != nil {
		return err
	}
	s.ending, s.dooms, s.lock.Removal = true, true, true
	err := s.removeOwned(ctx, RemoveOptions{stopped: func() {
		if len(result.Containers) == 0 {
			result.Status = s.Status()
			result.Containers = lifecycle.EndedContainers(s.pod(), result.Status)
		}
		s.closeExits()
		s.drain()
	}})
	if err == nil {
		s.lock.Forget()
	}
	return err
}

// leftToOther tells whether another command owns the pod of a run that is over, or
// has removed it.
func (s *Worker) leftToOther(ctx context.Context) (bool, error) {
	if s.lock.Owned() || s.lock.Incarnation == "" {
		return false, nil
	}
	r, err := s.lock.Owner()
	if err != nil || r == nil || r.Incarnation != s.lock.Incarnation {
		return true, err
	}
	if !s.lock.Live(r) {
		return false, nil
	}
	s.SendWarnings(problem.List{{Object: "pod " + s.plan.ID.String(), Warning: true, Message: "podrun does not remove the pod: " + r.Shown() + " has taken it over"}})
	return true, nil
}
