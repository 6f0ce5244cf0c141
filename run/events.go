package run

import (
	"github.com/podrun/podrun/event"
	"github.com/podrun/podrun/run/store"
)

// Events returns the events of a pod, aggregated, in the order of their last
// occurrence; none if it has no journal.
func (e *Engine) Events(uid string) ([]event.Event, error) {
	return store.ReadJournal(e.Layout(), uid)
}
