package observe

import (
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// Listed is a container in the last list of the runtime's pods.
type Listed struct {
	Running
	State lifecycle.State
}

// Inventory returns all containers in the last list, whatever their states, and all pods with a ready
// sandbox, including those of other programs. The caller must not change the lists.
func (h *Hub) Inventory() (containers []Listed, ready []identity.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.found, h.ready
}

// note records a complete list that the hub began to read at the given time.
func (h *Hub) note(begun time.Time, containers []Listed, ready []identity.Pod) {
	now := time.Now()
	h.mu.Lock()
	before := h.noted
	h.noted = now
	h.found = containers
	h.ready = ready
	h.mu.Unlock()
	if h.Listed == nil {
		return
	}
	var interval time.Duration
	if !before.IsZero() {
		interval = now.Sub(before)
	}
	h.Listed(now, now.Sub(begun), interval)
}
