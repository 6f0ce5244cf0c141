package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/problem"
)

// RuntimeError names the pod in an error of the runtime.
func RuntimeError(id identity.Pod, err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "pod " + id.String(), Err: err}
}

// ofPod names the pod in an error that names a container alone: a command may
// have several pods.
func (s *Worker) ofPod(err error) error {
	e, ok := err.(*problem.Error)
	if !ok || !strings.HasPrefix(e.Object, "container ") {
		return err
	}
	named := *e
	named.Object = "pod " + s.plan.ID.String() + ": " + e.Object
	return &named
}

// failed is the error of all failures.
func (s *Worker) failed() error { return errors.Join(s.failures...) }

// whileWaiting is the error of a wait: with what was waited for, unless the pod
// is gone.
func (s *Worker) whileWaiting(ctx context.Context, err error, waiting string) error {
	if _, says := errors.AsType[*problem.Error](err); says {
		return err
	}
	err = fmt.Errorf("%w while %s", err, waiting)
	if ctx.Err() == nil {
		return RuntimeError(s.plan.ID, err)
	}
	return s.orInterrupted(ctx, err)
}

// OrEnded is orInterrupted for a step that is about no single pod.
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

// orInterrupted prefers the reason for which the context ended over the error
// that a call made of it.
func (s *Worker) orInterrupted(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if err == nil || cause == nil {
		return err
	}
	var pe *problem.Error
	if errors.As(err, &pe) && pe.Kind == problem.Image {
		return err // says more: the image's own trouble
	}
	if timeout := (problem.TimeoutError{}); s.pulls != nil && errors.As(cause, &timeout) {
		if trouble := s.pulls.Trouble(); trouble != nil {
			return s.ofPod(trouble) // whatever else had not come to its end
		}
	}
	if !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, s.doing(err))
	}
	return s.interrupted(err)
}

// doing leaves of an error what was being done, if it says so: that the call was
// canceled then is nobody's news.
func (s *Worker) doing(err error) error {
	if e, ok := errors.AsType[*problem.Error](err); ok && e.Op != "" {
		return errors.New(e.Op)
	}
	return s.nameless(err)
}

// nameless drops the pod's name from an error that gets it anew.
func (s *Worker) nameless(err error) error {
	if e, ok := err.(*problem.Error); ok && e.Object == "pod "+s.plan.ID.String() {
		short := *e
		short.Object = ""
		return &short
	}
	return err
}

// inStep says in which step of the pod's an error came up.
func (s *Worker) inStep(step string, err error) error {
	out := &problem.Error{Kind: problem.Runtime, Object: "pod " + s.plan.ID.String(), Op: step, Err: s.nameless(err)}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		out.Kind, out.Hint = e.Kind, e.Hint
	}
	return out
}

// interrupted makes the error of a sync that was cut short.
func (s *Worker) interrupted(cause error) error {
	var timeout problem.TimeoutError
	if errors.As(cause, &timeout) {
		return DeadlineError(s.plan.ID, cause, "")
	}
	return fmt.Errorf("pod %s: %w", s.plan.ID, cause)
}

// DeadlineError is the error of a command that took too long, or was ended.
func DeadlineError(id identity.Pod, cause error, waiting string) error {
	if waiting != "" {
		cause = fmt.Errorf("%w while %s", cause, waiting)
	}
	return &problem.Error{Kind: problem.Deadline, Object: "pod " + id.String(), Err: cause,
		Hint: "increase --timeout; 'podrun get' and 'podrun logs' show the progress"}
}

// endedBy is the error of a step on a container during which the context ended
// with cause. Where the runtime still answered why it could not do the step, the
// error has its answer: the deadline is then no reason, only the moment.
func (s *Worker) endedBy(cause error, name, op string, err error) error {
	if err == nil || errors.Is(err, cause) || onlyEnded(err) {
		return cause
	}
	return fmt.Errorf("%w; the runtime's last answer to %s container %s: %w", cause, op, name, s.redacted(name, err))
}

// onlyEnded tells whether an error says no more than that the call was ended.
func onlyEnded(err error) bool {
	code := status.Code(err)
	return code == codes.DeadlineExceeded || code == codes.Canceled ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
