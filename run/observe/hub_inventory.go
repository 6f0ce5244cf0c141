package observe

import (
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// Listed is a container as the runtime's pods were last listed.
type Listed struct {
	Running
	State lifecycle.State
}

// Inventory lists the containers, in any state, and the pods with a ready sandbox, as
// of the last list, of all pods, whoever made them. The lists must not be changed.
func (h *Hub) Inventory() (containers []Listed, ready []identity.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.found, h.ready
}

// note keeps a complete list that was begun then.
func (h *Hub) note(begun time.Time, containers []Listed, ready []identity.Pod) {
	now := time.Now()
	h.mu.Lock()
	before := h.noted
	h.noted, h.found, h.ready = now, containers, ready
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
