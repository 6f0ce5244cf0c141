package supervisor

import (
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/observe"
	"github.com/podrun/podrun/serve/source"
)

// Snapshot returns the content of the manifest sources when they were last read; nil before
// the first read.
func (s *Supervisor) Snapshot() *source.Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snapshot
}

// Inventory returns the runtime's last list; see observe.Hub.
func (s *Supervisor) Inventory() ([]observe.Listed, []identity.Pod) { return s.hub.Inventory() }
