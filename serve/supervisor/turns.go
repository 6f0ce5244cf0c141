package supervisor

import (
	"sync/atomic"
	"time"
)

// turns contains, for each loop of the supervisor, the time at which its last iteration began, in nanoseconds since
// 1970, or 0 before the first iteration. podrun notifies systemd's watchdog only if all loops make progress. A
// runtime that does not answer does not stop a loop, because every call to the runtime has a time limit.
type turns struct {
	state atomic.Int64 // the loop of watchState
	lists atomic.Int64 // the loop of observe.Hub.Run
}

// listed records that the hub has begun an iteration.
func (t *turns) listed() { t.lists.Store(time.Now().UnixNano()) }

// late returns the name of a loop whose last iteration began more than limit ago; or "" if there is
// none.
func (t *turns) late(now time.Time, limit time.Duration) string {
	for _, loop := range []struct {
		name string
		at   *atomic.Int64
	}{{"the loop that observes the state on disk", &t.state}, {"the loop that observes the runtime", &t.lists}} {
		if at := loop.at.Load(); at != 0 && now.Sub(time.Unix(0, at)) > limit {
			return loop.name
		}
	}
	return ""
}
