package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/imagepull"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Timeout       time.Duration // time limit of the whole operation; 0 means no limit
	KeepOnFailure bool          // if a pod fails to start, keep the objects that podrun created for it
	AllowKubelet  bool
	Wait          lifecycle.Goal // GoalStarted if empty
	Continue      bool           // start the other pods if some are refused
	Force         bool           // replace pods even if they have ended or have not changed
	// RestartedAt replaces a pod if its annotation identity.AnnotationRestartedAt changes, like a Deployment.
	RestartedAt bool
	// New refuses pods whose name an existing pod has, like `docker run` and `kubectl create`.
	// NewHint is the hint of that error.
	New     bool
	NewHint string
	// FromCheckpoint is true if the pods come from their checkpoints. If such a pod fails to start,
	// podrun still keeps its checkpoint.
	FromCheckpoint bool
	// Redefined is true if the command has changed the definitions in the pods' checkpoints. FromCheckpoint
	// is then also set, but podrun records the command as the origin of the definitions.
	Redefined bool
	// DefineOnly only updates the definition of a pod that podrun need not replace. It does not
	// start containers or wait for them, so a pod that has ended or was stopped does not run again.
	DefineOnly bool
	// Debug is an ephemeral container that is added to an existing pod; nil if there is none. If it
	// is not nil, Wait is lifecycle.GoalDebugged with the container's name.
	Debug  *corev1.EphemeralContainer
	Origin store.Origin // the source of the pods' definitions; the zero value means apply
	// Admitted is called when the pod's definition is on disk; it may be nil.
	Admitted func() error
	// ReplaceCorrupt replaces pods whose checkpoints are corrupt. If it is false, such pods are
	// refused.
	ReplaceCorrupt bool
	// Pulls are finished pulls of the pod's images; nil if there are none.
	Pulls *imagepull.Pulls
	// Source is the hash of the source's definition that a supervisor applies; "" for a command.
	Source string
	// Rollback restores the earlier definition of a pod if the update to the new one fails, and that of the other replicas
	// of its workload.
	Rollback bool
	// RollsBack is true if the definition is the last good one, which podrun restores. The record of the update then has
	// the state RollingBack.
	RollsBack bool
	// KeepUID makes a pod that replaces another one keep its UID, and its checkpoint until the new one is on disk.
	KeepUID bool
	// Supervision makes the worker supervise the pod from its start. It is nil for a command, which
	// ends when it reaches its goal.
	Supervision *Supervision
}

// Admit returns the options for the pods' admission.
func (o ApplyOptions) Admit() node.AdmitOptions {
	origin := o.Origin
	if origin.Command == "" {
		origin.Command = store.OriginApply
	}
	return node.AdmitOptions{
		PrepareOptions: node.PrepareOptions{
			AllowKubelet:   o.AllowKubelet,
			Force:          o.Force,
			RestartedAt:    o.RestartedAt,
			KeepEnded:      o.DefineOnly,
			Debug:          o.Debug,
			ReplaceCorrupt: o.ReplaceCorrupt,
			KeepUID:        o.KeepUID || o.RollsBack || o.Rollback,
			KeepReferred:   origin.Command == store.OriginApply && !o.FromCheckpoint,
		},
		Continue:       o.Continue,
		Origin:         origin,
		FromCheckpoint: o.FromCheckpoint && !o.Redefined,
	}
}

// definesOnly reports whether the operation only changes the pod's definition.
func (o ApplyOptions) definesOnly(t prepare.Target) bool {
	return o.DefineOnly && (t.Change == prepare.ChangeUpdate || t.Change == prepare.ChangeUnchanged)
}

func (o ApplyOptions) goal() lifecycle.Goal {
	if o.Supervision != nil {
		return lifecycle.GoalNever
	}
	if o.Wait == "" {
		return lifecycle.GoalStarted
	}
	return o.Wait
}

// Apply works on one pod until the pod reaches its goal. If another command takes over the pod before
// the goal is reached, Apply admits the pod again in its new state. If a failure occurs before the
// first container was started, Apply rolls back its changes.
func (w *Worker) Apply(ctx context.Context, t prepare.Target, o ApplyOptions) Result {
	defer w.lease.Lock.Reservation.Release()
	if err := t.Refused(); err != nil {
		return Result{ID: t.Plan.ID, Outcome: OutcomeFailed, Err: w.closeAfter(err)}
	}
	result := Result{ID: t.Plan.ID}
	a := w.applying()
	result.Outcome, result.Err = a.applyTarget(ctx, t, o)
	for errors.Is(result.Err, store.ErrChanged) {
		if t, result.Err = a.admitAgain(ctx, t, o); result.Err == nil {
			result.Outcome, result.Err = a.applyTarget(ctx, t, o)
		}
	}
	result.Err = w.loop.explain(ctx, result.Err)
	if result.Err != nil {
		result.Outcome = OutcomeFailed
		switch {
		case o.Debug != nil:
			if err := a.undoDebug(ctx); err != nil {
				result.Err = errors.Join(result.Err, leftBehind(t.Plan.ID, err))
			}
		case !o.KeepOnFailure:
			if err := a.rollback(ctx); err != nil {
				result.Err = errors.Join(result.Err, leftBehind(t.Plan.ID, err))
			}
		}
	}
	result.What = a.what(t, result.Outcome)
	result.Status = w.pod.Status()
	if err := w.Close(); err != nil && result.Err == nil {
		result.Err = err
	}
	return result
}

// beginUndo registers the steps that undo the pod's admission.
func (a *applying) beginUndo(t prepare.Target, o ApplyOptions) {
	if t.Change == prepare.ChangeNew {
		a.lease.Undo.Push("remove the pod's directory", a.remove.Dirs)
	}
	if o.Debug != nil {
		a.lease.Undo.Push("remove the ephemeral container", func(ctx context.Context) error { return a.removeDebug(ctx, t, o.Debug.Name) })
	}
}

// endedUndebugged returns the error for a pod that ended before its ephemeral container was started.
func (a *applying) endedUndebugged() error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + a.pod.Plan.ID.String(), Err: errors.New("has ended"),
		Hint: "an ephemeral container requires a running pod; run 'podrun get' to show the pod's state"}
}

// wantedImages returns the images that a goal requires.
func (a *applying) wantedImages(goal lifecycle.Goal) imagepull.Plan {
	if name := goal.Debugs(); name != "" {
		return a.pod.Plan.Images.Only(name)
	}
	return a.pod.Plan.Images
}

// leftBehind returns the error for objects that a rollback could not remove.
func leftBehind(id identity.Pod, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Op: "clean up", Err: err,
		Hint: "run 'podrun delete " + id.Name + " -n " + id.Namespace + "' to retry"}
}

// applyTarget works on an admitted pod until the pod reaches its goal.
func (a *applying) applyTarget(ctx context.Context, t prepare.Target, o ApplyOptions) (Outcome, error) {
	a.lease.HasDir = t.Change != prepare.ChangeReplace
	a.pod.ResizePending = pod.PendingResize{Known: true} // no resize is pending
	a.beginUndo(t, o)
	if err := a.observeTarget(ctx, t); err != nil {
		return OutcomeFailed, pod.RuntimeError(a.pod.Plan.ID, err)
	}
	if err := a.pod.CheckManaged(); err != nil {
		return OutcomeFailed, err
	}
	if o.definesOnly(t) {
		return a.outcome(t), a.prepareChange(ctx, t, o)
	}
	if err := a.pod.ClearStopped(); err != nil {
		return OutcomeFailed, err
	}
	if err := a.preempt(ctx, t.Preempts); err != nil {
		return OutcomeFailed, err
	}
	if t.Change != prepare.ChangeUnchanged {
		defer a.loop.start.Images.Begin(ctx, a.wantedImages(o.goal()), o.Pulls)()
	}
	if err := a.prepareChange(ctx, t, o); err != nil {
		return OutcomeFailed, err
	}
	if o.Admitted != nil {
		if err := o.Admitted(); err != nil {
			return OutcomeFailed, err
		}
	}
	if err := a.pod.Journal.Open(a.pod.Plan.Layout); err != nil {
		return OutcomeFailed, err
	}
	a.emitWarnings(t.Change)
	if o.Supervision != nil {
		defer a.loop.supervised(ctx, o.Supervision)()
	}
	ended, err := a.loop.until(ctx, o.goal())
	switch {
	case err != nil:
		return OutcomeFailed, err
	case ended && o.goal().Debugs() != "":
		return OutcomeFailed, a.endedUndebugged()
	case t.Was.Ended && t.Change == prepare.ChangeUnchanged:
		return a.endedBefore(OutcomeUnchanged)
	case ended && (o.goal() == lifecycle.GoalCompleted || o.Supervision != nil):
		// The pod's status explains how the pod ended.
	case ended:
		return a.endedBefore(a.outcome(t))
	}
	return a.outcome(t), nil
}

// emitWarnings emits an event for each warning of the plan. An update in place, for example by a renewed token,
// does not repeat those that the journal contains.
func (a *applying) emitWarnings(change prepare.Change) {
	switch change {
	case prepare.ChangeUnchanged:
	case prepare.ChangeUpdate:
		a.loop.emitNew(a.pod.Plan.Warnings)
	default:
		for _, warning := range a.pod.Plan.Warnings {
			a.pod.Journal.Emit(warning)
		}
	}
}

// emitNew emits those events that the pod's journal does not contain. If the journal cannot be read, a repeated event is
// better than a missing one.
func (l *loop) emitNew(events []event.Event) {
	if len(events) == 0 {
		return
	}
	emitted, _ := store.ReadJournal(l.pod.Plan.Layout, l.pod.Plan.ID.UID)
	for _, e := range events {
		if !slices.ContainsFunc(emitted, func(o event.Event) bool { return o.Reason == e.Reason && o.Message == e.Message }) {
			l.pod.Journal.Emit(e)
		}
	}
}

// observeTarget sets the observed state of the pod to the state that admission read under the same
// lock. For a new pod the state contains only the logs of an earlier pod, unless the facts contain the pod's UID.
func (a *applying) observeTarget(ctx context.Context, t prepare.Target) (err error) {
	if t.Was.Observed != nil && t.Was.ID.UID == a.pod.Plan.ID.UID {
		a.pod.Observed = t.Was.Observed
		return nil
	}
	ofThis := func(p host.Pod) bool { return p.UID == a.pod.Plan.ID.UID }
	if t.Change == prepare.ChangeNew && !slices.ContainsFunc(a.pod.Plan.Facts.Pods, ofThis) {
		a.pod.Observed = observe.NewPod(a.pod.Plan.Layout, a.pod.Plan.ID)
		return nil
	}
	a.pod.Observed, err = a.pod.Node.Observe(ctx, a.pod.Plan.ID.UID)
	return err
}

// outcomes are the outcomes of pods that have been started, by kind of change.
var outcomes = map[prepare.Change]Outcome{
	prepare.ChangeNew: OutcomeCreated, prepare.ChangeUnchanged: OutcomeUnchanged,
	prepare.ChangeUpdate: OutcomeUpdated, prepare.ChangeReplace: OutcomeReplaced,
}

// outcome returns the outcome for a pod that has been started.
func (a *applying) outcome(t prepare.Target) Outcome {
	if t.Change == prepare.ChangeUnchanged && a.loop.acted || t.Change == prepare.ChangeReplace && t.Forced {
		return OutcomeRestarted
	}
	return outcomes[t.Change]
}

// what returns the details of an outcome.
func (a *applying) what(t prepare.Target, o Outcome) []string {
	switch o {
	case OutcomeUpdated, OutcomeReplaced:
		return t.Changes
	case OutcomeRestarted:
		var names []string
		for _, c := range lifecycle.SpecContainers(a.pod.Spec()) {
			if have := a.pod.Observed.Container(c.Container.Name); have != nil && a.loop.mine[have.ID] {
				names = append(names, have.Name)
			}
		}
		return names
	}
	return nil
}

// endedBefore returns the outcome for a pod that ended before it reached its goal, or even before the command began.
// If the pod has succeeded, this is the argument; if it has failed, endedBefore returns an error.
func (a *applying) endedBefore(succeeded Outcome) (Outcome, error) {
	status := a.pod.Status()
	if status.Phase != corev1.PodFailed {
		return succeeded, nil
	}
	return OutcomeFailed, &problem.Error{
		Kind: problem.Failed, Object: "pod " + a.pod.Plan.ID.String(), Err: errors.New(failedWhy(status)),
		Hint: "run 'podrun logs " + a.pod.Plan.ID.Args() + "' to see why, or 'podrun restart " + a.pod.Plan.ID.Args() + "' to run it again",
	}
}

// failedWhy names the first container with a nonzero exit code.
func failedWhy(status corev1.PodStatus) string {
	for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for _, c := range list {
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				return fmt.Sprintf("failed: container %s exited with %d (%s)", c.Name, t.ExitCode, t.Reason)
			}
		}
	}
	return "failed"
}
