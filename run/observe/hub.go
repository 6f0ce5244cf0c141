package observe

import (
	"context"
	"sync"
	"time"

	"github.com/podrun/podrun/cri"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run/lifecycle"
)

// The intervals at which a Hub lists the runtime's pods. The interval is fastestRelist while the state
// changes, or while the Hub cannot watch a container's process. Otherwise it increases to
// slowestRelist. While the runtime is unavailable, the interval increases from fastestRetry to
// slowestRetry.
const (
	fastestRelist = time.Second
	slowestRelist = 30 * time.Second
	fastestRetry  = 100 * time.Millisecond
	slowestRetry  = 5 * time.Second
)

// Hub detects changes of many pods. It does not poll individual pods: it lists the runtime's pods
// once for all of them, and uses a pidfd for each container. It is safe for concurrent use.
type Hub struct {
	// Report is called with the zero time when the runtime becomes unavailable. When the runtime is
	// available again, it is called with the time at which the runtime had become unavailable. It may
	// be nil, and must be set before Run.
	Report func(down time.Time)

	// Listed is called after each complete list with the duration of the list and the time since the
	// previous one (0 if there was none). It may be nil, and must be set before Run.
	Listed func(at time.Time, took, interval time.Duration)

	// Turned is called before each list. It may be nil, and must be set before Run.
	Turned func()

	client *cri.Client
	kick   wait.Signal

	mu      sync.Mutex
	watches map[*Watch]bool
	up      chan struct{}  // closed while the runtime is available
	down    time.Time      // when the runtime became unavailable; zero while it is available
	noted   time.Time      // when the last complete list was read
	found   []Listed       // containers in the last list
	ready   []identity.Pod // pods with a ready sandbox in the last list
}

// Running is a container that was running when the runtime's pods were last listed.
type Running struct {
	ID        string
	Pod       identity.Pod
	Container string
	Attempt   uint32
}

// NewHub returns a hub for a runtime. It does nothing until Run is called.
func NewHub(client *cri.Client) *Hub {
	h := &Hub{client: client, kick: wait.NewSignal(), watches: map[*Watch]bool{}, up: make(chan struct{})}
	close(h.up)
	return h
}

// Run lists the runtime's pods repeatedly until ctx ends.
func (h *Hub) Run(ctx context.Context) {
	var events sync.WaitGroup
	defer events.Wait()
	events.Go(func() { h.follow(ctx) })
	pause := fastestRelist // not aligned (wait.Alignment), because a late list delays a reaction
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		case <-h.kick:
		}
		if h.Turned != nil {
			h.Turned()
		}
		states, err := h.list(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if h.fail() {
				pause = fastestRetry
			} else {
				pause = wait.Next(pause, fastestRetry, slowestRetry)
			}
		case h.take(states):
			pause = fastestRelist
		default:
			pause = wait.Next(pause, fastestRelist, slowestRelist)
		}
	}
}

// Check lists the runtime's pods once, with the timeout firstList, so that the hub detects an
// unavailable runtime before any worker calls the runtime.
func (h *Hub) Check(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, firstList)
	defer cancel()
	listed, err := h.list(bounded)
	switch {
	// The call failed because ctx ended, not because the runtime is unavailable.
	case ctx.Err() != nil:
	case err != nil:
		h.fail()
	default:
		h.take(listed)
	}
}

// firstList is the timeout of the list that Check requests.
const firstList = 2 * time.Second

// states maps the IDs of a pod's sandboxes and containers to their states.
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
		if c := &obs.Containers[i]; !c.CreateFailed {
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

// fail records that the runtime is unavailable, and reports whether it was available before.
func (h *Hub) fail() (first bool) {
	h.mu.Lock()
	if first = h.down.IsZero(); first {
		h.down = time.Now()
		h.up = make(chan struct{})
	}
	h.mu.Unlock()
	if first && h.Report != nil {
		h.Report(time.Time{})
	}
	return first
}

// Down returns the time at which the runtime became unavailable; or zero if it is available.
func (h *Hub) Down() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down
}

// AwaitRuntime waits until the runtime, after it has failed to respond to a worker, is available
// again. The error is the cause that ended ctx.
func (h *Hub) AwaitRuntime(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause // the call failed because ctx ended
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

// Running lists the containers of all pods, including those of other programs, that were running when
// the runtime's pods were last listed.
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
