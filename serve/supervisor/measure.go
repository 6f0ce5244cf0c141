package supervisor

import (
	"context"
	"sync"
	"time"

	"github.com/podrun/podrun/internal/wait"
	evictions "github.com/podrun/podrun/serve/eviction"
)

// rankWithin is the time for which a ranking of pods by disk usage waits for a round of measurements. Ordinary
// volumes take less; a container can make the measurement of its volumes take any time.
const rankWithin = time.Second

// rounds coordinates the rounds in which podrun measures volumes with the pressure loop, which does not wait
// for them.
type rounds struct {
	mu      sync.Mutex
	wake    wait.Signal
	allPods chan struct{} // closed at the end of the next round that includes all pods; nil if none is requested
	cancel  func()        // ends the current round
	fresh   bool          // whether a round has ended since the limits of pods were last enforced
}

func newRounds() *rounds { return &rounds{wake: wait.NewSignal(), cancel: func() {}} }

// requestAll requests a round that includes pods without limits, which begins now. The result is closed at
// its end.
func (r *rounds) requestAll() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.allPods == nil {
		r.allPods = make(chan struct{})
	}
	r.cancel()
	r.wake.Send()
	return r.allPods
}

// begin begins a round. allPods is not nil if the round must include all pods.
func (r *rounds) begin(ctx context.Context) (round context.Context, allPods chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.wake: // this round is the one that was requested
	default:
	}
	round, cancel := context.WithCancel(ctx)
	allPods = r.allPods
	r.allPods = nil
	r.cancel = cancel
	return round, allPods
}

// end ends a round.
func (r *rounds) end(allPods chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel()
	r.fresh = true
	if allPods != nil {
		close(allPods)
	}
}

// takeFresh reports whether a round has ended since the last call.
func (r *rounds) takeFresh() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	fresh := r.fresh
	r.fresh = false
	return fresh
}

// measureVolumes measures the volumes of pods with local storage limits once a minute, and those of all
// pods when a ranking requests it.
func (s *Supervisor) measureVolumes(ctx context.Context) {
	var limited limits
	for {
		round, allPods := s.rounds.begin(ctx)
		wanted := limited.candidates(s)
		if allPods != nil {
			wanted = s.candidates(func(string) bool { return true })
		}
		s.options.Stats.Measure(round, objectsOf(wanted))
		s.rounds.end(allPods)
		select {
		case <-ctx.Done():
			return
		case <-s.rounds.wake:
		case <-time.After(wait.Period(measureEvery)):
		}
	}
}

// awaitSizes requests the sizes of all pods' volumes, and waits for at most rankWithin.
func (s *Supervisor) awaitSizes(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-s.rounds.requestAll():
	case <-time.After(rankWithin):
	}
}

// limits remembers which pods have local storage limits, by UID. The limits of a pod do not change, so podrun
// reads the pod's definition only once.
type limits struct{ known map[string]bool }

// candidates returns the pods with local storage limits.
func (l *limits) candidates(s *Supervisor) (due []candidate) {
	now := map[string]bool{}
	for _, c := range s.candidates(func(uid string) bool {
		limited, ok := l.known[uid]
		if ok {
			now[uid] = limited
		}
		return limited || !ok
	}) {
		now[string(c.object.UID)] = evictions.Limited(c.object)
		if now[string(c.object.UID)] {
			due = append(due, c)
		}
	}
	l.known = now
	return due
}
