// Package wait has the pause that a context ends.
package wait

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends; then the error is its cause.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
