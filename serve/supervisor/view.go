package supervisor

import (
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
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

// Ignored returns the problems of objects that podrun ignores, because another file defines objects of the
// same names.
func (s *Supervisor) Ignored() problem.List {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.want == nil {
		return nil
	}
	return s.want.Problems
}

// Inventory returns, from the runtime's last list, the containers and the pods with a ready
// sandbox; see observe.Hub.Inventory.
func (s *Supervisor) Inventory() ([]observe.Listed, []identity.Pod) { return s.hub.Inventory() }
