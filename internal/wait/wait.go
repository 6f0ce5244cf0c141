// Package wait provides a pause that a context can interrupt.
package wait

import (
	"context"
	"time"
)

// Sleep waits for the duration d. If ctx ends first, it returns the context's cause.
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
