package run

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// endedBy is the error of a step on a container during which the context ended
// with cause. Where the runtime still answered why it could not do the step, the
// error has its answer: the deadline is then no reason, only the moment.
func (s *syncer) endedBy(cause error, name, op string, err error) error {
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
