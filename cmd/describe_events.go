package cmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podrun/podrun/event"
)

// tally is an event that came again and again, which the API server keeps as
// one object.
type tally struct {
	event       event.Event // the first
	count       int
	first, last time.Time
}

// tallies counts the events that say the same of the same, and sorts them by
// when they last came.
func tallies(events []event.Event) []*tally {
	type key struct{ kind, reason, fieldPath, message string }
	seen := map[key]*tally{}
	var out []*tally
	for _, e := range events {
		k := key{e.Type, e.Reason, e.FieldPath, e.Message}
		t := seen[k]
		if t == nil {
			t = &tally{event: e, first: e.Time}
			seen[k] = t
			out = append(out, t)
		}
		t.count++
		t.last = e.Time
	}
	slices.SortStableFunc(out, func(a, b *tally) int { return a.last.Compare(b.last) })
	return out
}

// events writes the table of events.
func (d *description) events(events []event.Event) {
	if len(events) == 0 {
		d.row(0, "Events:", "<none>")
		return
	}
	// The table's columns are its own. What goes wrong here, the last Flush
	// reports again.
	_ = d.out.Flush()
	d.row(0, "Events:")
	d.row(1, "Type", "Reason", "Age", "From", "Message")
	d.row(1, "----", "------", "----", "----", "-------")
	for _, t := range tallies(events) {
		age := d.since(t.first)
		if t.count > 1 {
			age = fmt.Sprintf("%s (x%d over %s)", d.since(t.last), t.count, age)
		}
		message := strings.TrimSpace(t.event.Message)
		if t.event.FieldPath != "" {
			message = t.event.FieldPath + ": " + message
		}
		d.row(1, t.event.Type, t.event.Reason, age, "podrun", message)
	}
}
