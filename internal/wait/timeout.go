package wait

import (
	"context"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

// WithTimeout returns a context that ends after a command's --timeout. Its cause is then a
// problem.TimeoutError. A limit of 0 means no timeout. The operations of package run apply
// their timeouts themselves; WithTimeout is for what a command does before such an operation.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return WithRest(ctx, limit, 0)
}

// WithRest is WithTimeout for a command that has already used a part of its limit (spent). The
// cause names the whole limit, because that is the --timeout that the user specified.
func WithRest(ctx context.Context, limit, spent time.Duration) (context.Context, context.CancelFunc) {
	if limit <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, limit-spent, problem.TimeoutError{After: limit})
}
