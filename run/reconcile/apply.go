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
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
	"github.com/podrun/podrun/run/store"
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Timeout       time.Duration // bounds the whole; 0 for no limit
	Spent         time.Duration // the part of Timeout that the command used before
	KeepOnFailure bool          // keep the created objects of a pod that fails to start
	AllowKubelet  bool
	Wait          lifecycle.Goal // GoalStarted if empty
	Continue      bool           // start the other pods where some are refused
	Force         bool           // run pods again that have ended or have not changed
	// FromCheckpoint means that the pods come from their checkpoints, which podrun keeps if a
	// pod fails to start.
	FromCheckpoint bool
	// Debug is an ephemeral container that is added to a pod on this host; nil for none.
	// Wait is then lifecycle.GoalDebugged of its name.
	Debug  *corev1.EphemeralContainer
	Origin store.Origin // how the pods come to be here; the zero value is by apply
	// Admitted is called when the pod's definition is on disk; nil for not.
	Admitted func() error
	// ReplaceCorrupt replaces pods whose checkpoints are corrupt; otherwise they are refused.
	ReplaceCorrupt bool
	// Supervision makes the worker supervise the pod from its start on; nil for a
	// command, which ends at its goal.
	Supervision *Supervision
}

// Admit returns the options of the pods' admission.
func (o ApplyOptions) Admit() node.AdmitOptions {
	origin := o.Origin
	if origin.Command == "" {
		origin.Command = store.OriginApply
	}
	return node.AdmitOptions{PrepareOptions: node.PrepareOptions{AllowKubelet: o.AllowKubelet, Force: o.Force, Debug: o.Debug, ReplaceCorrupt: o.ReplaceCorrupt},
		Continue: o.Continue, Origin: origin, FromCheckpoint: o.FromCheckpoint}
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

// Apply brings one pod to its goal. Where another command takes the pod over before
// this one has readied it, the pod is admitted again as it is then. A failure before
// the first container was started is rolled back.
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

// beginUndo registers what takes back that the pod was admitted.
func (a *applying) beginUndo(t prepare.Target, o ApplyOptions) {
	if t.Change == prepare.ChangeNew {
		a.lease.Undo.Push("remove the pod's directory", a.remove.Dirs)
	}
	if o.Debug != nil {
		a.lease.Undo.Push("remove the ephemeral container", func(ctx context.Context) error { return a.removeDebug(ctx, t, o.Debug.Name) })
	}
}

// endedUndebugged is the error for a pod that ended before its ephemeral container was
// started.
func (a *applying) endedUndebugged() error {
	return &problem.Error{Kind: problem.Failed, Object: "pod " + a.pod.Plan.ID.String(), Err: errors.New("has ended"),
		Hint: "an ephemeral container requires a running pod; 'podrun get' shows the pod's state"}
}

// wantedImages are the images that a goal needs.
func (a *applying) wantedImages(goal lifecycle.Goal) imagepull.Plan {
	if name := goal.Debugs(); name != "" {
		return a.pod.Plan.Images.Only(name)
	}
	return a.pod.Plan.Images
}

// leftBehind reports the objects that a rollback could not remove.
func leftBehind(id identity.Pod, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Op: "clean up", Err: err,
		Hint: "'podrun delete " + id.Name + " -n " + id.Namespace + "' retries"}
}

// applyTarget brings a pod as it was admitted to its goal.
func (a *applying) applyTarget(ctx context.Context, t prepare.Target, o ApplyOptions) (Outcome, error) {
	a.lease.HasDir = t.Change != prepare.ChangeReplace
	a.pod.ResizePending = pod.PendingResize{Known: true} // none
	a.beginUndo(t, o)
	if err := a.observeTarget(ctx, t); err != nil {
		return OutcomeFailed, pod.RuntimeError(a.pod.Plan.ID, err)
	}
	if err := a.pod.OnlyOurs(); err != nil {
		return OutcomeFailed, err
	}
	if err := a.pod.ClearStopped(); err != nil {
		return OutcomeFailed, err
	}
	if err := a.preempt(ctx, t.Preempts); err != nil {
		return OutcomeFailed, err
	}
	if t.Change != prepare.ChangeUnchanged {
		defer a.loop.start.Images.Begin(ctx, a.wantedImages(o.goal()))()
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
	if t.Change != prepare.ChangeUnchanged {
		for _, warning := range a.pod.Plan.Warnings {
			a.pod.Journal.Emit(warning)
		}
	}
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
		return a.alreadyEnded()
	case ended && (o.goal() == lifecycle.GoalCompleted || o.Supervision != nil):
		// How it ended is in its status.
	case ended:
		return a.alreadyEnded()
	case t.Change == prepare.ChangeUnchanged && a.loop.acted, t.Change == prepare.ChangeReplace && t.Forced:
		return OutcomeRestarted, nil
	}
	return outcomes[t.Change], nil
}

// observeTarget takes over the runtime's state of the pod that was read when the pod was
// admitted, under the same lock. For a new pod it is empty, unless the facts contain its
// UID.
func (a *applying) observeTarget(ctx context.Context, t prepare.Target) (err error) {
	if t.Was.Observed != nil && t.Was.ID.UID == a.pod.Plan.ID.UID {
		a.pod.Observed = t.Was.Observed
		return nil
	}
	ofThis := func(p host.Pod) bool { return p.UID == a.pod.Plan.ID.UID }
	if t.Change == prepare.ChangeNew && !slices.ContainsFunc(a.pod.Plan.Facts.Pods, ofThis) {
		return nil
	}
	a.pod.Observed, err = a.pod.Node.Observe(ctx, a.pod.Plan.ID.UID)
	return err
}

// outcomes are those of pods that were brought to be started.
var outcomes = map[prepare.Change]Outcome{
	prepare.ChangeNew: OutcomeCreated, prepare.ChangeUnchanged: OutcomeUnchanged,
	prepare.ChangeUpdate: OutcomeUpdated, prepare.ChangeReplace: OutcomeReplaced,
}

// what lists what an outcome is about.
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

// alreadyEnded is the outcome for a pod that is over: nothing to do when it has
// succeeded, an error when it has failed.
func (a *applying) alreadyEnded() (Outcome, error) {
	status := a.pod.Status()
	if status.Phase != corev1.PodFailed {
		return OutcomeUnchanged, nil
	}
	return OutcomeFailed, &problem.Error{
		Kind: problem.Failed, Object: "pod " + a.pod.Plan.ID.String(), Err: errors.New(failedWhy(status)),
		Hint: "'podrun logs' shows why; 'podrun restart " + a.pod.Plan.ID.Name + "' runs it again",
	}
}

// failedWhy names the container that made the pod fail.
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
