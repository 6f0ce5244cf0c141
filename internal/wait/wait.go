// Package wait provides pauses that a context can interrupt, the pauses of periodic tasks, contexts with
// a time limit for cleanup, and signals that wake a goroutine.
package wait

import (
	"context"
	"time"
)

// Alignment is the interval at whose multiples periodic tasks run, unless their delay would delay a
// reaction. Tasks that run together wake an idle process only once, and a wake-up costs more than a
// typical task.
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
// multiple of Alignment that is nearest to d from now, or at the nearest multiple of a quarter of
// Alignment if d is not itself a multiple of Alignment. A period less than Alignment remains unchanged.
func Period(d time.Duration) time.Duration {
	every := Alignment
	switch {
	case d < Alignment:
		return d
	case d%Alignment != 0:
		every /= 4
	}
	next := time.Now().Add(d)
	return d + next.Round(every).Sub(next.Round(0))
}
