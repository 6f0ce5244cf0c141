package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/podrun/podrun/run/node"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Timeout       time.Duration // bounds the whole; 0 for no limit
	KeepOnFailure bool          // leave what was made when a pod can't be started
	AllowKubelet  bool
	Wait          lifecycle.Goal // GoalStarted if empty
	Continue      bool           // start the other pods where some are refused
	Force         bool           // run pods again that have ended or have not changed
}

// Admit are the options of the pods' admission.
func (o ApplyOptions) Admit() node.AdmitOptions {
	return node.AdmitOptions{PrepareOptions: node.PrepareOptions{AllowKubelet: o.AllowKubelet, Force: o.Force}, Continue: o.Continue}
}

func (o ApplyOptions) goal() lifecycle.Goal {
	if o.Wait == "" {
		return lifecycle.GoalStarted
	}
	return o.Wait
}

// Apply brings one pod to be started, and takes back what it made when that
// fails before the first container was started.
func (s *Worker) Apply(ctx context.Context, t prepare.Target, o ApplyOptions) Result {
	defer s.lock.Reservation.Release()
	if err := t.Refused(); err != nil {
		return Result{ID: t.Plan.ID, Outcome: OutcomeFailed, Err: err}
	}
	result := Result{ID: t.Plan.ID}
	result.Outcome, result.Err = s.apply(ctx, t, o)
	result.What = s.what(s.applied, result.Outcome)
	if result.Err != nil {
		result.Outcome = OutcomeFailed
		if !o.KeepOnFailure {
			if err := s.rollback(ctx); err != nil {
				result.Err = errors.Join(result.Err, leftBehind(t.Plan.ID, err))
			}
		}
	}
	result.Status = s.Status()
	if err := s.journal.Close(); err != nil && result.Err == nil {
		result.Err = err
	}
	return result
}

// leftBehind reports what a rollback could not remove.
func leftBehind(id identity.Pod, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Op: "clean up", Err: err,
		Hint: "'podrun delete " + id.Name + " -n " + id.Namespace + "' tries again"}
}

// apply does the work of Apply. Where another command takes the pod over
// before this one has readied it, the pod is admitted again as it is then.
func (s *Worker) apply(ctx context.Context, t prepare.Target, o ApplyOptions) (Outcome, error) {
	for {
		outcome, err := s.applyTarget(ctx, &t, o)
		if errors.Is(err, store.ErrChanged) {
			if t, err = s.admitAgain(ctx, t, o); err == nil {
				continue
			}
			outcome, err = OutcomeFailed, s.orInterrupted(ctx, err)
		}
		if err == nil {
			s.applied = t
		}
		return outcome, err
	}
}

// applyTarget brings a pod as it was admitted to its goal.
func (s *Worker) applyTarget(ctx context.Context, t *prepare.Target, o ApplyOptions) (Outcome, error) {
	s.reserved = t.Change != prepare.ChangeReplace
	if t.Change == prepare.ChangeNew {
		s.undo.push("remove the pod's directory", s.removeDirs)
	}
	if err := s.observeTarget(ctx, *t); err != nil {
		return OutcomeFailed, s.orInterrupted(ctx, RuntimeError(s.plan.ID, err))
	}
	if err := s.onlyOurs(); err != nil {
		return OutcomeFailed, err
	}
	if err := s.clearStopped(); err != nil {
		return OutcomeFailed, err
	}
	if d := lifecycle.Next(s.pod(), s.world()); t.Change != prepare.ChangeReplace && d.Ended && s.obs.Sandbox() != nil {
		if t.Change != prepare.ChangeUpdate {
			return s.finish(ctx, d)
		}
		t.Change, t.Old = prepare.ChangeReplace, []prepare.Here{t.Was} // nothing runs that could be updated in place
		s.reserved = false
	}
	if err := s.preempt(ctx, t.Preempts); err != nil {
		return OutcomeFailed, s.orInterrupted(ctx, err)
	}
	if t.Change != prepare.ChangeUnchanged {
		s.pulls = s.puller.Start(ctx, s.plan.Images)
		defer s.pulls.Stop()
	}
	if err := s.prepareChange(ctx, *t); err != nil {
		return OutcomeFailed, s.orInterrupted(ctx, err)
	}
	if err := s.journal.Open(s.plan.Layout); err != nil {
		return OutcomeFailed, err
	}
	if t.Change != prepare.ChangeUnchanged {
		for _, w := range s.plan.Warnings {
			s.journal.Emit(w)
		}
	}
	ended, err := s.until(ctx, o.goal())
	switch {
	case err != nil:
		return OutcomeFailed, err
	case ended && o.goal() == lifecycle.GoalCompleted:
		// How it ended is in its status.
	case ended:
		return s.alreadyEnded()
	case t.Change == prepare.ChangeUnchanged && s.acted, t.Change == prepare.ChangeReplace && t.Forced:
		return OutcomeRestarted, nil
	}
	return outcomes[t.Change], nil
}

// observeTarget takes in what the runtime has of the pod. Of a new one it has nothing,
// unless the facts, which were read under this same lock, have its UID.
func (s *Worker) observeTarget(ctx context.Context, t prepare.Target) (err error) {
	ofThis := func(p host.Pod) bool { return p.UID == s.plan.ID.UID }
	if t.Change == prepare.ChangeNew && !slices.ContainsFunc(s.plan.Facts.Pods, ofThis) {
		return nil
	}
	s.obs, err = s.Observe(ctx, s.plan.ID.UID)
	return err
}

// outcomes are those of pods that were brought to be started.
var outcomes = map[prepare.Change]Outcome{
	prepare.ChangeNew: OutcomeCreated, prepare.ChangeUnchanged: OutcomeUnchanged,
	prepare.ChangeUpdate: OutcomeUpdated, prepare.ChangeReplace: OutcomeReplaced,
}

// what lists what an outcome is about.
func (s *Worker) what(t prepare.Target, o Outcome) []string {
	switch o {
	case OutcomeUpdated, OutcomeReplaced:
		return t.Changes
	case OutcomeRestarted:
		var names []string
		for _, c := range lifecycle.SpecContainers(s.pod()) {
			if have := s.obs.Container(c.Container.Name); have != nil && s.mine[have.ID] {
				names = append(names, have.Name)
			}
		}
		return names
	}
	return nil
}

// finish stops what is left of a pod that has ended: its sidecars, and the
// sandbox that holds its addresses and ports, as a kubelet does.
func (s *Worker) finish(ctx context.Context, d lifecycle.Decision) (Outcome, error) {
	if len(d.Actions) > 0 {
		if err := s.openJournal(); err != nil {
			return OutcomeFailed, err
		}
	}
	if err := s.execute(ctx, d.Actions); err != nil {
		return OutcomeFailed, s.orInterrupted(ctx, err)
	}
	return s.alreadyEnded()
}

// alreadyEnded is the outcome for a pod that is over: nothing to do when it has
// succeeded, an error when it has failed.
func (s *Worker) alreadyEnded() (Outcome, error) {
	status := s.Status()
	if status.Phase != corev1.PodFailed {
		return OutcomeUnchanged, nil
	}
	return OutcomeFailed, &problem.Error{
		Kind: problem.Failed, Object: "pod " + s.plan.ID.String(), Err: errors.New(failedWhy(status)),
		Hint: "'podrun logs' shows why; 'podrun restart " + s.plan.ID.Name + "' runs it again",
	}
}

// failedWhy says which container made the pod fail.
func failedWhy(status corev1.PodStatus) string {
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, c := range list {
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				return fmt.Sprintf("has failed: container %s exited with %d (%s)", c.Name, t.ExitCode, t.Reason)
			}
		}
	}
	return "has failed"
}
