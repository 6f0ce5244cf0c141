package supervisor

import (
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/serve/source"
)

// Snapshot returns the content of the manifest sources at the last read. It returns nil before the
// first read.
func (s *Supervisor) Snapshot() *source.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot
}

// Inventory returns, from the runtime's last list, the containers and the pods with a ready
// sandbox; see observe.Hub.Inventory.
func (s *Supervisor) Inventory() ([]observe.Listed, []identity.Pod) { return s.hub.Inventory() }
