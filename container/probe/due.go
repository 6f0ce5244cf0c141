package probe

import "time"

// Due returns when the next probe of a container that started at startedAt begins:
// initialDelaySeconds after the start, then every period, counted from the first probe. A
// time in the past means immediately: if a probe took longer than its period, the next one
// follows without a pause, and the probes that were due before are skipped. ok is false if
// there is no further probe.
//
// If the host's clock was set back since the container started, the first probe waits for at
// most the initial delay from now.
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

// due returns when the next probe begins. The first probe is not before the end of options.Settle.
func (p *Prober) due(w *watched, plan Plan, s State) (time.Time, bool) {
	now := time.Now()
	due, ok := Due(plan, s, w.StartedAt, now)
	if s.First.IsZero() && due.Before(w.StartedAt.Add(p.options.Settle)) && !w.StartedAt.After(now) {
		due = w.StartedAt.Add(p.options.Settle)
	}
	return due, ok
}
