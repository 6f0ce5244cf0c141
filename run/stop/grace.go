package stop

import (
	"context"
	"sync"
	"time"
)

// minimumGrace is the minimum time that a container has to stop, even if its preStop hook, or the
// containers before it, have used up the pod's grace period (kubelet, minimumGracePeriodInSeconds).
const minimumGrace = 2 * time.Second

// graceEnd is the end of a container's grace period. Another command may shorten the period.
type graceEnd struct {
	mu       sync.Mutex
	at       time.Time
	minimum  time.Duration // the container's time after TERM, even if the grace period has ended
	shorter  chan struct{} // closed and replaced when the period becomes shorter
	recorded time.Time     // at, as in the owner record; zero if it was never read from there
}

// newGraceEnd returns the end of a grace period that begins now.
func newGraceEnd(grace time.Duration) *graceEnd {
	return &graceEnd{at: time.Now().Add(grace), minimum: min(grace, minimumGrace), shorter: make(chan struct{})}
}

// sameEnd is the difference up to which two ends count as the same: the clock of the record, which can
// be set, and the monotonic clock do not agree exactly.
const sameEnd = 50 * time.Millisecond

// shorten moves the end to a time of the owner record, if that is earlier.
func (g *graceEnd) shorten(to time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if to.Equal(g.recorded) {
		return
	}
	g.recorded = to
	left := time.Until(to)
	if left > time.Until(g.at)-sameEnd {
		return
	}
	g.at, g.minimum = time.Now().Add(left), min(g.minimum, max(left, 0))
	close(g.shorter)
	g.shorter = make(chan struct{})
}

// noMinimum removes the minimum, because the container was asked to stop before.
func (g *graceEnd) noMinimum() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.minimum = min(g.minimum, max(time.Until(g.at), 0))
}

// left returns the rest of the grace period, at least 0. The channel is closed when the period becomes
// shorter.
func (g *graceEnd) left() (time.Duration, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(time.Until(g.at), 0), g.shorter
}

// afterTERM returns how long the runtime must wait between TERM and KILL.
func (g *graceEnd) afterTERM() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(time.Until(g.at), g.minimum)
}

// bound returns a context that ends at the end of the grace period.
func (g *graceEnd) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for {
			left, shorter := g.left()
			timer := time.NewTimer(left)
			select {
			case <-ctx.Done():
			case <-timer.C:
				cancel(context.DeadlineExceeded)
			case <-shorter:
			}
			timer.Stop()
			if ctx.Err() != nil {
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// untilShorter returns a context that ends when the grace period becomes shorter.
func (g *graceEnd) untilShorter(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	_, shorter := g.left()
	go func() {
		select {
		case <-ctx.Done():
		case <-shorter:
			cancel()
		}
	}()
	return ctx, cancel
}
