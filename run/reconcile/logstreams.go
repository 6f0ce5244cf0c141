package reconcile

import (
	"time"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// Log is a container's log file.
type Log struct {
	Pod       identity.Pod
	Container string
	ID        string
	Path      string // an absolute path
	State     lifecycle.State
	// FinishedAt is the time of the container's exit; zero if it has not exited.
	FinishedAt time.Time
}

// logStreams announces started and exited containers to the reader of their logs. The zero value
// does nothing.
type logStreams struct {
	// startReading is called for each started container, with a channel that is closed when the container has
	// exited. The function that startReading returns waits until the log has been read.
	startReading func(Log, <-chan struct{}) (drained func())
	exits        map[string]chan struct{}
	drains       []func()
}

// started announces a container that has started.
func (l *logStreams) started(log Log) {
	if l.startReading == nil {
		return
	}
	exited := make(chan struct{})
	if l.exits == nil {
		l.exits = map[string]chan struct{}{}
	}
	l.exits[log.ID] = exited
	l.drains = append(l.drains, l.startReading(log, exited))
}

// exited announces the containers that have exited.
func (l *logStreams) exited(obs *lifecycle.Observed) {
	for _, c := range obs.Containers {
		if exited := l.exits[c.ID]; exited != nil && c.State != lifecycle.Running {
			close(exited)
			delete(l.exits, c.ID)
		}
	}
}

// allExited announces that every container has exited.
func (l *logStreams) allExited() {
	for id, exited := range l.exits {
		close(exited)
		delete(l.exits, id)
	}
}

// drain waits until the logs have been read.
func (l *logStreams) drain() {
	for _, wait := range l.drains {
		wait()
	}
	l.drains = nil
}
