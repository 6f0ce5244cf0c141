package cmd

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podrun/podrun/internal/event"
)

// repeats chooses which of the events that come again and again are printed:
// what probes report and back-offs, at their first, second, fourth, eighth …
// occurrence, with the count. A probe that fails every 10 s thus has 6 lines in
// the first 6 minutes and 12 in the first 12 hours. All other events are
// printed, however often they come: each start of a container is news. When a
// container starts, its events count from one again.
type repeats struct{ seen event.Correlator }

// due returns an event with its count, and whether it is printed.
func (r *repeats) due(e event.Event) (event.Event, bool) {
	switch e.Reason {
	case event.StartedContainer:
		r.seen.Forget(e.UID, e.FieldPath)
	case event.UnhealthyContainer, event.BackOffStart, event.ProbeWarning:
		e = r.seen.Add(e)
		return e, e.Count&(e.Count-1) == 0
	}
	return e, true
}

// times is how often an event occurred, in kubectl's words; empty for once.
func times(e event.Event) string {
	if e.Count < 2 {
		return ""
	}
	return fmt.Sprintf(" (x%d over %s)", e.Count, duration.HumanDuration(e.Time.Sub(e.First)))
}
