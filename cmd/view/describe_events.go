package view

import (
	"fmt"
	"strings"

	"github.com/podrun/podrun/internal/event"
)

// events writes the table of events. The function prefix returns the text that precedes the message of an
// event; kubectl prints none.
func (d *Description) events(events []event.Event, prefix func(event.Event) string) {
	if len(events) == 0 {
		d.row(0, "Events:", "<none>")
		return
	}
	d.Text.endBlock() // the rows above do not affect the widths of the table
	d.row(0, "Events:")
	d.row(1, "Type", "Reason", "Age", "From", "Message")
	d.row(1, "----", "------", "----", "----", "-------")
	for _, e := range event.Correlate(events) {
		age := d.since(e.Time)
		if e.Count > 1 {
			age = fmt.Sprintf("%s (x%d over %s)", age, e.Count, d.since(e.First))
		}
		message := strings.TrimSpace(e.Message)
		if e.FieldPath != "" {
			message = e.FieldPath + ": " + message
		}
		d.row(1, e.Type, e.Reason, age, "podrun", prefix(e)+message)
	}
}
