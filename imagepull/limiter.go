package imagepull

import "time"

// limiter spaces pulls: Burst at once, then QPS a second, over all pods. The
// kubelet fails a pull beyond its registryPullQPS and backs off for 10 s; here
// the pull waits its turn. Not safe for concurrent use.
type limiter struct {
	QPS   float64 // 0: no limit
	Burst int

	tokens float64 // may be negative: turns that are promised
	last   time.Time
}

// wait takes a turn and returns how long it is away.
func (l *limiter) wait(now time.Time) time.Duration {
	if l.QPS <= 0 {
		return 0
	}
	full := float64(max(l.Burst, 1))
	if l.last.IsZero() {
		l.tokens = full
	} else {
		l.tokens = min(full, l.tokens+now.Sub(l.last).Seconds()*l.QPS)
	}
	l.last = now
	l.tokens--
	if l.tokens >= 0 {
		return 0
	}
	return time.Duration(-l.tokens / l.QPS * float64(time.Second))
}
