package lease

import (
	"sync/atomic"
	"time"
)

// Progress shows whether a worker makes progress: it records when the worker acquired its pod's lock. A
// nil Progress records nothing. It is safe for concurrent use.
type Progress struct{ since atomic.Int64 }

// Act records that the worker now holds its pod's lock.
func (p *Progress) Act() {
	if p != nil {
		p.since.Store(time.Now().UnixNano())
	}
}

// Wait records that the worker has released the lock and may wait for any length of time.
func (p *Progress) Wait() {
	if p != nil {
		p.since.Store(0)
	}
}

// Acting returns the time at which the worker acquired its pod's lock. The time is zero if the
// worker does not hold the lock.
func (p *Progress) Acting() time.Time {
	if ns := p.since.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}
