package stop

import (
	"sync/atomic"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// progressEvery is the interval at which podrun reports what a stop waits for. A stop that is shorter than twice
// the interval reports nothing.
const progressEvery = time.Second

// progress reports what the stop of one container waits for.
type progress struct{ state atomic.Value }

// waitsForOthers is the state of a stop that waits for the exit of other containers, which report the progress.
const waitsForOthers event.StopState = ""

// reportProgress reports the progress of a stop until the returned function is called. It reports nothing before the
// first call of progress.waitsFor.
func (s *Stopper) reportProgress(st *stop) (p *progress, end func()) {
	p = &progress{}
	sink := s.pod.Node.Progress
	if sink == nil {
		return p, func() {}
	}
	begun, done, stopped := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		reported := false
		for {
			select {
			case <-done:
				if reported {
					sink(s.progressEvent(st, event.Stop{State: event.StopEnded}))
				}
				return
			case now := <-ticker.C:
				state, known := p.state.Load().(event.StopState)
				if elapsed := now.Sub(begun); known && state != waitsForOthers && elapsed >= 2*progressEvery {
					left, _ := st.end.left()
					sink(s.progressEvent(st, event.Stop{State: state, Elapsed: elapsed, Left: left}))
					reported = true
				}
			}
		}
	}()
	return p, func() { close(done); <-stopped }
}

// waitsFor sets the state that the reports show.
func (p *progress) waitsFor(state event.StopState) { p.state.Store(state) }

func (s *Stopper) progressEvent(st *stop, now event.Stop) event.Event {
	id := s.pod.Plan.ID
	return event.Event{Time: time.Now(), Type: event.Normal, Reason: event.StopProgress, Message: now.String(),
		Namespace: id.Namespace, Pod: id.Name, UID: id.UID, FieldPath: s.pod.EventPath(st.Name), Stop: &now}
}
