package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
)

// RuntimeError is an error of kind Runtime that names the pod.
func RuntimeError(id identity.Pod, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Err: err}
}

// ofPod adds the pod to an error that names only a container: a command may have several
// pods.
func ofPod(id identity.Pod, err error) error {
	e, ok := err.(*problem.Error)
	if !ok || !strings.HasPrefix(e.Object, "container ") {
		return err
	}
	named := *e
	named.Object = "pod " + id.String() + ": " + e.Object
	return &named
}

// waitError is the error of a wait. It names what the command waited for, unless the
// error is about the pod.
func (w *Worker) waitError(ctx context.Context, err error, waiting string) error {
	if _, says := errors.AsType[*problem.Error](err); says {
		return err
	}
	err = fmt.Errorf("%w while %s", err, waiting)
	if ctx.Err() == nil {
		return RuntimeError(w.pod.plan.ID, err)
	}
	return err
}

// OrEnded is the error of a step that is about no single pod; nil for nil. Where
// ctx has ended it names the cause, and is of kind Deadline after a timeout.
func OrEnded(ctx context.Context, err error) error {
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

// explain is what an operation on the pod returns for the error that ended it.
// Failures of containers come first. Else, where the context has ended, its cause
// does: that some call was canceled then explains nothing.
func (w *Worker) explain(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return nil
	case len(w.start.failures) > 0:
		return errors.Join(w.start.failures...)
	case cause == nil:
		return err
	}
	e, isProblem := errors.AsType[*problem.Error](err)
	if isProblem && e.Kind == problem.Image {
		return err // why the image could not be pulled is more specific
	}
	_, timeout := errors.AsType[problem.TimeoutError](cause)
	if timeout {
		if trouble := w.start.images.trouble(); trouble != nil {
			return ofPod(w.pod.plan.ID, trouble)
		}
	}
	switch {
	case errors.Is(err, cause):
		err = nameless(w.pod.plan.ID, err)
	case isProblem && e.Op != "":
		err = fmt.Errorf("%w: %s", cause, e.Op)
	default:
		err = fmt.Errorf("%w: %w", cause, nameless(w.pod.plan.ID, err))
	}
	if timeout {
		late := DeadlineError(w.pod.plan.ID, err, "")
		if w.pod.removedAtEnd {
			late.Hint = "increase --timeout; with --rm=false the pod stays for 'podrun logs' and 'podrun describe'"
		}
		return late
	}
	return fmt.Errorf("pod %s: %w", w.pod.plan.ID, err)
}

// nameless drops the pod's name from an error to which a caller adds it.
func nameless(id identity.Pod, err error) error {
	if e, ok := err.(*problem.Error); ok && e.Object == "pod "+id.String() {
		short := *e
		short.Object = ""
		return &short
	}
	return err
}

// inStep adds the step of the pod's start in which an error occurred.
func inStep(id identity.Pod, step string, err error) error {
	out := &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Op: step, Err: nameless(id, err)}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		out.Kind, out.Hint = e.Kind, e.Hint
	}
	return out
}

// DeadlineError is an error of kind Deadline that names the pod; waiting, which may be
// empty, describes what the command waited for.
func DeadlineError(id identity.Pod, cause error, waiting string) *problem.Error {
	if waiting != "" {
		cause = fmt.Errorf("%w while %s", cause, waiting)
	}
	return &problem.Error{Kind: problem.Deadline, Object: "pod " + id.String(), Err: cause,
		Hint: "increase --timeout; 'podrun get' and 'podrun logs' show the progress"}
}

// endedBy is the error of a step on a container during which the context ended
// with cause. Where the runtime still answered why it could not do the step, the
// error has its answer: the deadline is then no reason, only the moment.
func (w *starter) endedBy(cause error, name, op string, err error) error {
	if err == nil || errors.Is(err, cause) || cri.Interrupted(err) {
		return cause
	}
	return fmt.Errorf("%w; the runtime's last answer to %s container %s: %w", cause, op, name, w.pod.redacted(name, err))
}

// ofRuntime adds the pod to an error of the runtime. Other errors, for example that
// another command now owns the pod, already name it.
func (w *state) ofRuntime(err error) error {
	if _, named := errors.AsType[*problem.Error](err); named || err == nil || errors.Is(err, store.ErrChanged) {
		return err
	}
	return RuntimeError(w.plan.ID, err)
}
