package observe

import (
	"context"
	"sync"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// The intervals at which a Hub lists the runtime's pods: fastestRelist while the state
// changes, or while the process of a container cannot be watched, increasing to
// slowestRelist otherwise. If the runtime does not answer, the interval is fastestRetry
// at first and increases to slowestRetry.
const (
	fastestRelist = time.Second
	slowestRelist = 30 * time.Second
	fastestRetry  = 100 * time.Millisecond
	slowestRetry  = 5 * time.Second
)

// Hub notices changes of many pods with one list of the runtime's pods for all of
// them, a pidfd a container, and no polling of single pods. It is safe for
// concurrent use.
type Hub struct {
	// Report is called when the runtime stops to answer, with the zero time, and when
	// it answers again, with since when it did not; nil for not. It is set before Run.
	Report func(down time.Time)

	// Listed is called after each complete list with how long it took, and the time
	// since the one before, 0 for none; nil for not. It is set before Run.
	Listed func(at time.Time, took, interval time.Duration)

	client *cri.Client
	kick   chan struct{}

	mu      sync.Mutex
	watches map[*Watch]bool
	up      chan struct{}  // closed while the runtime answers
	down    time.Time      // since when the runtime does not answer; zero while it does
	noted   time.Time      // when found was read
	found   []Listed       // containers of the last list
	ready   []identity.Pod // pods with a ready sandbox, of the last list
}

// Running is a container that ran when the runtime's pods were last listed.
type Running struct {
	ID        string
	Pod       identity.Pod
	Container string
	Attempt   uint32
}

// NewHub returns a hub of a runtime. Run makes it work.
func NewHub(client *cri.Client) *Hub {
	h := &Hub{client: client, kick: make(chan struct{}, 1), watches: map[*Watch]bool{}, up: make(chan struct{})}
	close(h.up)
	return h
}

// Run lists the runtime's pods again and again, until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	var events sync.WaitGroup
	defer events.Wait()
	events.Go(func() { h.follow(ctx) })
	wait := fastestRelist
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-h.kick:
		}
		states, err := h.list(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if h.fail() {
				wait = fastestRetry
			} else {
				wait = min(wait*2, slowestRetry)
			}
		case h.take(states):
			wait = fastestRelist
		default:
			wait = min(wait*2, slowestRelist)
		}
	}
}

// Check lists the runtime's pods once, for at most firstList: a runtime that is not
// there is known not to answer before any worker asks it.
func (h *Hub) Check(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	listed, err := h.list(bounded)
	switch {
	case ctx.Err() != nil: // that says nothing of the runtime
	case err != nil:
		h.fail()
	default:
		h.take(listed)
	}
}

// firstList bounds Check.
const firstList = 2 * time.Second

// states are those of a pod's sandboxes and containers, by ID.
type states map[string]string

func sandboxState(ready bool) string {
	if ready {
		return "ready"
	}
	return "not ready"
}

func statesOf(obs *lifecycle.Observed) states {
	out := states{}
	for i := range obs.Sandboxes {
		out[obs.Sandboxes[i].ID] = sandboxState(obs.Sandboxes[i].Ready)
	}
	for i := range obs.Containers {
		if c := &obs.Containers[i]; !c.Unmade {
			out[c.ID] = string(c.State)
		}
	}
	return out
}

func (s states) equal(other states) bool {
	if len(s) != len(other) {
		return false
	}
	for id, state := range s {
		if other[id] != state {
			return false
		}
	}
	return true
}

// fail notes that the runtime does not answer, and reports whether it did before.
func (h *Hub) fail() (first bool) {
	h.mu.Lock()
	if first = h.down.IsZero(); first {
		h.down, h.up = time.Now(), make(chan struct{})
	}
	h.mu.Unlock()
	if first && h.Report != nil {
		h.Report(time.Time{})
	}
	return first
}

// Down is since when the runtime has not answered; zero while it does.
func (h *Hub) Down() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

// AwaitRuntime waits for a runtime that did not answer a worker. The error is that
// of ctx.
func (h *Hub) AwaitRuntime(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause // it was not the runtime's fault
	}
	h.fail()
	h.Relist()
	h.mu.Lock()
	up := h.up
	h.mu.Unlock()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-up:
		return nil
	}
}

// Running lists the containers that ran when the runtime's pods were last listed, of
// all pods, whoever made them.
func (h *Hub) Running() []Running {
	found, _ := h.Inventory()
	out := make([]Running, 0, len(found))
	for _, c := range found {
		if c.State == lifecycle.Running {
			out = append(out, c.Running)
		}
	}
	return out
}
