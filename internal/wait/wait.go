// Package wait provides pauses that a context can interrupt, and contexts with a time limit for cleanup.
package wait

import (
	"context"
	"time"
)

// Sleep waits for the duration d and returns nil. If ctx ends first, Sleep returns the context's
// cause.
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
