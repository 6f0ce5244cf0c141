// Package wait provides pauses that a context can interrupt, the pauses of periodic tasks, and contexts
// with a time limit for cleanup.
package wait

import (
	"context"
	"time"
)

// Alignment is the interval at whose multiples the periodic tasks of a process run. Tasks that run
// together wake an idle process only once, and a wake-up costs more than a typical task.
const Alignment = time.Second

// Sleep waits for the duration d and returns nil. If ctx ends first, or has already ended, Sleep returns
// the context's cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// SleepPeriod waits as Sleep does for Period(d).
func SleepPeriod(ctx context.Context, d time.Duration) error { return Sleep(ctx, Period(d)) }

// Period returns the pause of a task with the period d that has just run. The next run is at the
// multiple of Alignment that is nearest to d from now. A period less than Alignment remains
// unchanged, because the difference would be a large part of it.
func Period(d time.Duration) time.Duration {
	if d < Alignment {
		return d
	}
	next := time.Now().Add(d)
	return d + next.Round(Alignment).Sub(next.Round(0))
}
