package view

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/podrun/podrun/internal/event"
)

// Repeats decides when to print events that recur. It prints probe results and back-offs, with
// their count, only at the first, second, fourth, eighth and so on occurrence. For a probe that
// fails every 10 s, this is 6 lines in the first 6 minutes, and 12 in the first 12 hours. It
// prints all other events every time, because each start of a container is relevant. When a
// container starts, the counts of its events begin again at one.
type Repeats struct{ seen event.Correlator }

// Due returns an event with its count, and reports whether to print it.
func (r *Repeats) Due(e event.Event) (event.Event, bool) {
	switch e.Reason {
	case event.StartedContainer:
		r.seen.Forget(e.UID, e.FieldPath)
	case event.UnhealthyContainer, event.BackOffStart, event.ProbeWarning:
		e = r.seen.Add(e)
		return e, e.Count&(e.Count-1) == 0
	}
	return e, true
}

// Times returns how often an event occurred, as kubectl formats it, or "" for one
// occurrence.
func Times(e event.Event) string {
	if e.Count < 2 {
		return ""
	}
	return fmt.Sprintf(" (x%d over %s)", e.Count, duration.HumanDuration(e.Time.Sub(e.First)))
}
