package lease

import (
	"sync/atomic"
	"time"
)

// Progress reports whether a worker makes progress: for how long it has held its
// pod's lock. A nil Progress notes nothing. It is safe for concurrent use.
type Progress struct{ since atomic.Int64 }

// Act notes that the worker holds its pod's lock.
func (p *Progress) Act() {
	if p != nil {
		p.since.Store(time.Now().UnixNano())
	}
}

// Wait notes that the worker waits for something that may take long.
func (p *Progress) Wait() {
	if p != nil {
		p.since.Store(0)
	}
}

// Acting is since when the worker has held its pod's lock; zero while it does not.
func (p *Progress) Acting() time.Time {
	if ns := p.since.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}
