package pod

import (
	"errors"

	"github.com/podrun/podrun/internal/problem"
)

// Redacted returns the error with the values of the container's Secrets replaced.
func (p *Pod) Redacted(name string, err error) error {
	plan := p.Plan.Container(name)
	if plan == nil {
		return err
	}
	if text := plan.Redact(err.Error()); text != err.Error() {
		return &problem.Error{Kind: errorKind(err), Err: errors.New(text)}
	}
	return err
}

// errorKind returns the kind of a problem.Error, or Runtime for other errors.
func errorKind(err error) problem.Kind {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e.Kind
	}
	return problem.Runtime
}
