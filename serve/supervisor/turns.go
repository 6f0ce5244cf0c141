package supervisor

import (
	"sync/atomic"
	"time"
)

// turns are the times, in nanoseconds since 1970, at which the loops of the supervisor last began
// another turn; 0 before the first one. systemd's watchdog is notified only if all of them turn, whether
// or not the runtime answers: every call to it is limited.
type turns struct {
	state atomic.Int64 // watchState
	lists atomic.Int64 // observe.Hub.Run
}

// listed notes a turn of the hub.
func (t *turns) listed() { t.lists.Store(time.Now().UnixNano()) }

// late names a loop that has not turned for stuckAfter; "" if all loops turn.
func (t *turns) late(now time.Time) string {
	for _, loop := range []struct {
		name string
		at   *atomic.Int64
	}{{"the loop that observes the state on disk", &t.state}, {"the loop that observes the runtime", &t.lists}} {
		if at := loop.at.Load(); at != 0 && now.Sub(time.Unix(0, at)) > stuckAfter {
			return loop.name
		}
	}
	return ""
}
