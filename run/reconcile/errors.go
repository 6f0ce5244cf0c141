package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/pod"
)

// waitError returns the error of a wait that ended with err. It adds the state that the command was
// waiting for, unless err already describes a problem of the pod.
func (l *loop) waitError(ctx context.Context, err error, waiting string) error {
	if _, says := errors.AsType[*problem.Error](err); says {
		return err
	}
	if cause := context.Cause(ctx); cause != nil && cri.Interrupted(err) {
		// The error of the interrupted call explains nothing.
		err = cause
	}
	if waiting != "" {
		err = fmt.Errorf("%w: %s", err, waiting)
	}
	if ctx.Err() == nil {
		return pod.RuntimeError(l.pod.Plan.ID, err)
	}
	return err
}

// unreached describes why the pod has not reached a goal, and which containers have exited.
func (l *loop) unreached(goal lifecycle.Goal) string {
	why := l.unmetConditions(goal)
	if exits := lifecycle.Exits(l.pod.Status()); why != "" && exits != "" {
		why += "; " + exits
	}
	return why
}

// unmetConditions describes the conditions of a goal that the pod does not meet.
func (l *loop) unmetConditions(goal lifecycle.Goal) string {
	if name := goal.Debugs(); name != "" {
		return fmt.Sprintf("ephemeral container %s has not started", name)
	}
	switch goal {
	case lifecycle.GoalCompleted:
		return "the pod has not completed"
	case lifecycle.GoalNever:
		return ""
	case lifecycle.GoalStarted, lifecycle.GoalReady:
		done, waiting := lifecycle.StartedGoal(l.pod.Spec(), l.pod.Observed, l.mine)
		if !done || goal == lifecycle.GoalStarted {
			return waiting
		}
	}
	if !l.reached(goal) {
		return goal.Missing(l.pod.Status())
	}
	if u := l.unsettled(goal); u != nil {
		return u.Why
	}
	return "its readiness probes have not succeeded since the command began"
}

// ReadHostError returns the error of a step that does not concern one particular pod; nil if err is nil. If
// ctx has ended, the error includes the cause, and is of kind Deadline after a timeout.
func ReadHostError(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	err = fmt.Errorf("read the host and its runtime: %w: %w", cause, err)
	if _, timeout := errors.AsType[problem.TimeoutError](cause); timeout {
		return &problem.Error{Kind: problem.Deadline, Err: err, Hint: "increase --timeout"}
	}
	return err
}

// explain returns the error of an operation on the pod that ended with err. Failures of containers take
// precedence; explain adds those of starts that no further pass repeats. Otherwise, if ctx has ended, explain returns
// the cause, because the error of a canceled call explains nothing.
func (l *loop) explain(ctx context.Context, err error) error {
	if err != nil && len(l.start.Failures) > 0 {
		return errors.Join(slices.Concat(l.start.Failures, l.start.Repeats)...)
	}
	if e, ok := errors.AsType[*problem.Error](err); ok && e.Kind == problem.Image {
		// The error explains why the image could not be pulled.
		return err
	}
	if err != nil && timedOut(ctx) {
		if trouble := l.start.Images.PullError(); trouble != nil {
			return pod.OfPod(l.pod.Plan.ID, trouble)
		}
	}
	return l.suggestExitFrom(explain(ctx, l.pod, err))
}

// suggestExitFrom adds a hint to the error of a run that timed out after one container had exited, while
// another was still running.
func (l *loop) suggestExitFrom(err error) error {
	late, ok := errors.AsType[*problem.Error](err)
	if !ok || late.Kind != problem.Deadline || !l.policy.exitFrom || l.endsWith != "" {
		return err
	}
	if name := lifecycle.ExitedFirst(l.pod.Spec(), l.pod.Status()); name != "" {
		late.Hint = "set --exit-code-from=" + name + " to end the run when this container exits, or " + late.Hint
	}
	return err
}

// timedOut reports whether the context ended because the command's timeout expired.
func timedOut(ctx context.Context) bool {
	_, timeout := errors.AsType[problem.TimeoutError](context.Cause(ctx))
	return timeout
}

// explain is loop.explain for operations that start no containers.
func explain(ctx context.Context, p *pod.Pod, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil {
		return err
	}
	id := p.Plan.ID
	e, isProblem := errors.AsType[*problem.Error](err)
	switch {
	case errors.Is(err, cause):
		err = pod.WithoutPodName(id, err)
	case isProblem && e.Op != "":
		err = fmt.Errorf("%w: %s", cause, e.Op)
	default:
		err = fmt.Errorf("%w: %w", cause, pod.WithoutPodName(id, err))
	}
	if timedOut(ctx) {
		late := DeadlineError(id, err, "")
		if p.RemovedAtEnd {
			late.Hint = "increase --timeout, or set --rm=false to keep the pod for 'podrun logs' and 'podrun describe'"
		}
		return late
	}
	return fmt.Errorf("pod %s: %w", id, err)
}

// DeadlineError returns an error of kind Deadline that names the pod. The argument waiting
// describes the state that the command was waiting for; it may be empty.
func DeadlineError(id identity.Pod, cause error, waiting string) *problem.Error {
	if waiting != "" {
		cause = fmt.Errorf("%w: %s", cause, waiting)
	}
	return &problem.Error{Kind: problem.Deadline, Object: "pod " + id.String(), Err: cause,
		Hint: "increase --timeout; run 'podrun describe " + id.Args() + "' or 'podrun logs " + id.Args() + "' to show the progress"}
}
