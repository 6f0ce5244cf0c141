package reconcile

import (
	"github.com/podrun/podrun/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// tellStarted tells that a container has started, for its log to be read.
func (s *Worker) tellStarted(c lifecycle.Container, path string) {
	if s.started == nil {
		return
	}
	exited := make(chan struct{})
	s.exits[c.ID] = exited
	s.drains = append(s.drains, s.started(Log{Pod: s.plan.ID, Container: c.Name, ID: c.ID, Path: path, State: c.State}, exited))
}

// tellExits tells which containers have ended.
func (s *Worker) tellExits() {
	for _, c := range s.obs.Containers {
		if exited := s.exits[c.ID]; exited != nil && c.State != lifecycle.Running {
			close(exited)
			delete(s.exits, c.ID)
		}
	}
}

// closeExits tells that every container has ended.
func (s *Worker) closeExits() {
	for id, exited := range s.exits {
		close(exited)
		delete(s.exits, id)
	}
}

// drain waits until the logs were read.
func (s *Worker) drain() {
	for _, wait := range s.drains {
		wait()
	}
	s.drains = nil
}

// Log is where a container's log is.
type Log struct {
	Pod       identity.Pod
	Container string
	ID        string
	Path      string
	State     lifecycle.State
}
