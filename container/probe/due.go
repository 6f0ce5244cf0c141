package probe

import (
	"time"

	"github.com/podrun/podrun/internal/wait"
)

// Due returns when the next probe begins for a container that started at startedAt. The first probe
// begins initialDelaySeconds after the start. The others follow at multiples of the period after
// the first probe. A time in the past means that the probe must begin immediately. If a probe takes
// longer than its period, the next one follows without a pause, and probes that were due while it
// ran are skipped. If there is no further probe, ok is false.
//
// If the host's clock was set back since the container started, the first probe begins at the
// latest initialDelaySeconds after now.
func Due(p Plan, s State, startedAt, now time.Time) (due time.Time, ok bool) {
	switch {
	case s.Done:
		return time.Time{}, false
	case s.First.IsZero():
		if startedAt.After(now) {
			startedAt = now
		}
		return startedAt.Add(p.initialDelay()), true
	}
	ticks := s.Began.Sub(s.First)/p.period() + 1
	return s.First.Add(ticks * p.period()), true
}

// due returns when the next probe begins. The first probe does not begin before the end of
// options.Settle. After a success, a probe other than a startup probe begins at the time that aligned returns.
func (p *Prober) due(w *watched, plan Plan, s State) (time.Time, bool) {
	now := time.Now()
	due, ok := Due(plan, s, w.StartedAt, now)
	if s.First.IsZero() && due.Before(w.StartedAt.Add(p.options.Settle)) && !w.StartedAt.After(now) {
		due = w.StartedAt.Add(p.options.Settle)
	}
	if ok && plan.Kind != Startup && !s.First.IsZero() && s.Last == Success {
		due = aligned(due, plan.period())
	}
	return due, ok
}

// aligned returns the first multiple of wait.Alignment at or after t. If the period is less than ten times
// wait.Alignment, it uses the multiples of wait.Alignment/4, so that the delay is a small part of the period.
// The probes of all pods begin together at these times, with the periodic tasks of the process.
func aligned(t time.Time, period time.Duration) time.Time {
	every := wait.Alignment
	if period < 10*every {
		every /= 4
	}
	if over := t.Sub(t.Truncate(every)); over > 0 {
		return t.Add(every - over)
	}
	return t
}
