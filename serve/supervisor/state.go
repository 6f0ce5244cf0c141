package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/store"
)

// The states of pods in a summary.
const (
	stateSupervised = "supervised"
	stateStarting   = "starting"
	stateWaiting    = "waiting"
	stateFailed     = "failed"
	stateEnded      = "ended"
	stateStopped    = "stopped"
	stateEvicted    = "evicted"
)

var summaryOrder = []string{stateSupervised, stateStarting, stateWaiting, stateFailed, stateEnded, stateStopped, stateEvicted}

// stuckAfter returns the time after which a worker that still holds its pod's lock counts as stuck, and a
// loop as late. It exceeds the time that the calls of one iteration may take, which are limited by
// runtimeRequestTimeout: a loop lists sandboxes and containers.
func stuckAfter(runtimeRequestTimeout time.Duration) time.Duration {
	return max(10*time.Minute, 3*runtimeRequestTimeout)
}

// heartbeat calls Progress at intervals.
func (s *Supervisor) heartbeat(ctx context.Context) {
	for wait.SleepPeriod(ctx, s.options.Heartbeat) == nil {
		if s.options.Progress != nil {
			s.options.Progress(s.Summary())
		}
	}
}

// Summary returns the current state of the supervisor.
func (s *Supervisor) Summary() Summary {
	out := Summary{Pods: map[string]int{}, Down: s.hub.Down()}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, limit := time.Now(), stuckAfter(s.node.Settings.RuntimeRequestTimeout)
	out.Late = s.turns.late(now, limit)
	for _, p := range s.pods {
		out.Pods[p.state()]++
		p.mu.Lock()
		if p.corrupt != nil {
			out.Corrupt = append(out.Corrupt, *p.corrupt)
		}
		if p.pending != nil {
			out.Pending = append(out.Pending, p.pending.Pending)
		}
		p.mu.Unlock()
		out.Blocked = max(out.Blocked, p.failures.blockedBy())
		if since := p.progress.Acting(); !since.IsZero() && now.Sub(since) > limit {
			out.Stuck = append(out.Stuck, p.id.String())
		}
	}
	slices.SortFunc(out.Corrupt, func(a, b Corrupt) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(out.Pending, func(a, b store.Pending) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Summary is the state of a supervisor, as `podrun serve` reports it to systemd.
type Summary struct {
	Pods  map[string]int // number of pods in each state
	Down  time.Time      // time at which the runtime stopped responding; zero if it responds
	Stuck []string       // pods whose workers make no progress
	Late  string         // name of a loop of the supervisor that makes no progress; "" if all make progress
	// Corrupt contains the pods whose checkpoints podrun cannot use, sorted by name.
	Corrupt []Corrupt
	// Pending contains the definitions that podrun could not put into effect, sorted by name.
	Pending []store.Pending
	// Blocked is an error because of which podrun cannot act on a pod at the moment: the system cannot read the
	// pod's state, or this process lacks a resource such as file descriptors. It is "" if there is none.
	Blocked string
}

// Corrupt is a pod whose checkpoint podrun cannot use.
type Corrupt struct {
	ID     string // namespace/name
	Source string // the path of the file that defines the pod; "" if no file defines it
	Why    string
}

// String returns a line such as "37 pods: 35 supervised, 2 stopped".
func (s Summary) String() string {
	total := 0
	text := ""
	for _, state := range summaryOrder {
		if n := s.Pods[state]; n > 0 {
			total += n
			text += fmt.Sprintf(", %d %s", n, state)
		}
	}
	out := fmt.Sprintf("%d pods", total)
	if text != "" {
		out += ":" + text[1:]
	}
	if !s.Down.IsZero() {
		out += "; the container runtime has not answered since " + s.Down.Format(time.RFC3339)
	}
	return out
}

// publish writes the list of definitions that podrun could not put into effect, whenever it changes.
func (s *Supervisor) publish(ctx context.Context) {
	list := []store.Pending{}
	for {
		if err := store.WritePending(s.current().Layout(), list); err != nil {
			s.current().SendWarnings(problem.List{problem.WarningOf(err)})
		}
		select {
		case <-ctx.Done():
			return
		case <-s.published:
		}
		list = append([]store.Pending{}, s.Summary().Pending...)
	}
}
