package wait

import (
	"context"
	"fmt"
	"time"
)

// CleanupContext returns a context for the removal of objects. It has the values of ctx, but does not
// end with ctx, whose end is often the reason for the removal. After the given time limit, its cause is
// an error that contains the limit and wraps context.DeadlineExceeded.
func CleanupContext(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), limit, cleanupTimeoutError{limit})
}

// cleanupTimeoutError is the cause of the end of a CleanupContext. It is not a problem.TimeoutError,
// because --timeout does not change the limit.
type cleanupTimeoutError struct{ after time.Duration }

func (e cleanupTimeoutError) Error() string { return fmt.Sprintf("timed out after %s", e.after) }

func (cleanupTimeoutError) Unwrap() error { return context.DeadlineExceeded }
