package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// TestRepeatedEventsArePrintedSparsely checks that a probe that fails for hours does not fill
// the terminal, and that events after a restart are printed again.
func TestRepeatedEventsArePrintedSparsely(t *testing.T) {
	var out bytes.Buffer
	r := &Renderer{W: &out}
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	emit := func(reason, container, message string) {
		r.Event(event.Event{Time: at, Type: event.Warning, Reason: reason, UID: "u1", FieldPath: "spec.containers{" + container + "}", Message: message})
	}
	for range 20 {
		emit(event.UnhealthyContainer, "app", "Readiness probe failed: down")
		at = at.Add(10 * time.Second)
	}
	emit(event.UnhealthyContainer, "other", "Readiness probe failed: down")
	for range 3 { // never omitted
		emit(event.KillingContainer, "app", "Stopping container app")
	}
	emit(event.StartedContainer, "app", "Container started")
	emit(event.UnhealthyContainer, "app", "Readiness probe failed: down")
	r.Event(event.Event{Type: event.Warning, Reason: event.FailedToPullImage, Message: "Error: ErrImagePull", Repeats: true})
	const want = `Warning Unhealthy               app: Readiness probe failed: down
Warning Unhealthy               app: Readiness probe failed: down (x2 over 10s)
Warning Unhealthy               app: Readiness probe failed: down (x4 over 30s)
Warning Unhealthy               app: Readiness probe failed: down (x8 over 70s)
Warning Unhealthy               app: Readiness probe failed: down (x16 over 2m30s)
Warning Unhealthy               other: Readiness probe failed: down
Warning Killing                 app: Stopping container app
Warning Killing                 app: Stopping container app
Warning Killing                 app: Stopping container app
Warning Started                 app: Container started
Warning Unhealthy               app: Readiness probe failed: down
`
	if got := out.String(); got != want {
		t.Errorf("%s", got)
	}
}

func TestRepeatedEventsAsJSON(t *testing.T) {
	var out bytes.Buffer
	r := &Renderer{W: &out, Json: true}
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for i := range 3 {
		r.Event(event.Event{Time: at.Add(time.Duration(i) * time.Second), Reason: event.BackOffStart, Message: "Back-off restarting"})
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last event.Event
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || len(lines) != 2 || last.Count != 2 || !last.First.Equal(at) {
		t.Errorf("%v: %s", err, out.String())
	}
}
