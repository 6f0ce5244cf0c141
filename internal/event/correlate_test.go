package event

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var t0 = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

// unhealthy returns an event of a probe. The event occurred some seconds after t0.
func unhealthy(seconds int, message string) Event {
	return Event{Time: t0.Add(time.Duration(seconds) * time.Second), Type: Warning, Reason: UnhealthyContainer,
		Namespace: "default", Pod: "web", UID: "u1", FieldPath: "spec.containers{app}", Message: message}
}

// text formats the fields that these tests compare.
func text(events []Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %s %s x%d %s..%s\n", e.Type, e.FieldPath, e.Message, max(1, e.Count), e.began().Sub(t0), e.Time.Sub(t0))
	}
	return b.String()
}

// TestCorrelateCounts checks that only equal events of the same container are counted together.
// The result must be sorted by the last occurrence.
func TestCorrelateCounts(t *testing.T) {
	a := func(s int) Event { return unhealthy(s, "down") }
	b, normal, other := unhealthy(1, "down"), unhealthy(2, "down"), unhealthy(3, "down, too")
	b.FieldPath, normal.Type = "spec.containers{b}", Normal
	got := text(Correlate([]Event{a(0), b, normal, other, a(4), a(9)}))
	want := `Warning spec.containers{b} down x1 1s..1s
Normal spec.containers{app} down x1 2s..2s
Warning spec.containers{app} down, too x1 3s..3s
Warning spec.containers{app} down x3 0s..9s
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCorrelateCombines checks that the tenth message within ten minutes and all later ones
// become one event, as in client-go. Known messages must still be counted.
func TestCorrelateCombines(t *testing.T) {
	var events []Event
	for i := range 14 {
		events = append(events, unhealthy(i*10, fmt.Sprint("took ", i)))
	}
	events = append(events, unhealthy(140, "took 3"))
	out := Correlate(events)
	if len(out) != 10 {
		t.Errorf("%d events:\n%s", len(out), text(out))
	}
	if got := text(out[8:]); got != `Warning spec.containers{app} (combined from similar events): took 13 x5 1m30s..2m10s
Warning spec.containers{app} took 3 x2 30s..2m20s
` {
		t.Error(got)
	}
	for _, gap := range []int{600, 601} {
		late := Correlate(append(events, unhealthy(140+gap, "later")))
		got := late[len(late)-1].Message
		if want := map[bool]string{true: "later", false: combined + "later"}[gap > 600]; got != want {
			t.Errorf("after %d s: %q, want %q", gap, got, want)
		}
	}
}

// TestCorrelateTwice checks that aggregated events can be aggregated with later ones. The
// result must be the same as if all of them were aggregated together.
func TestCorrelateTwice(t *testing.T) {
	var events []Event
	for i := range 40 {
		events = append(events, unhealthy(i, fmt.Sprint("took ", i%15)))
	}
	want := Correlate(events)
	for _, at := range []int{1, 9, 12, 20, 39} {
		got := Correlate(append(Correlate(events[:at]), events[at:]...))
		if diff := cmp.Diff(text(want), text(got)); diff != "" {
			t.Errorf("after %d events: %s", at, diff)
		}
	}
	events = nil
	var now []Event
	// This number is larger than the number of similar events that a Correlator remembers.
	for i := range 5000 {
		e := unhealthy(i, fmt.Sprint("took ", i))
		events, now = append(events, e), append(now, e)
		if len(now) > 1500 {
			now = Correlate(now)
		}
	}
	if diff := cmp.Diff(text(Correlate(events)), text(Correlate(now))); diff != "" {
		t.Error(diff)
	}
}

func TestCorrelatorForgets(t *testing.T) {
	var c Correlator
	c.Add(unhealthy(0, "down"))
	if e := c.Add(unhealthy(1, "down")); e.Count != 2 {
		t.Errorf("%+v", e)
	}
	c.Forget("u1", "spec.containers{other}")
	if e := c.Add(unhealthy(2, "down")); e.Count != 3 || !e.First.Equal(t0) {
		t.Errorf("%+v", e)
	}
	c.Forget("u1", "spec.containers{app}")
	if e := c.Add(unhealthy(3, "down")); e.Count != 0 || !e.First.IsZero() {
		t.Errorf("%+v", e)
	}
}

func TestCorrelatorIsBounded(t *testing.T) {
	var c Correlator
	for i := range maxKnown + 500 {
		c.Add(Event{Time: t0.Add(time.Duration(i) * 100 * time.Millisecond), UID: fmt.Sprint("u", i), Reason: "Created"})
	}
	if len(c.known) != maxKnown || len(c.similar) != maxKnown {
		t.Errorf("%d events and %d groups are kept", len(c.known), len(c.similar))
	}
	if e := c.Add(Event{Time: t0, UID: fmt.Sprint("u", maxKnown+499), Reason: "Created"}); e.Count != 2 {
		t.Error("the newest was forgotten")
	}
}

// TestCorrelatorOfAYear checks the events and the use of memory if a probe fails with a different
// message each time for a year.
func TestCorrelatorOfAYear(t *testing.T) {
	var c Correlator
	for i := range 2000 {
		c.Add(unhealthy(i*700, fmt.Sprintf("%d %s", i, strings.Repeat("x", 10<<10))))
	}
	size := 0
	for k := range c.known {
		size += len(k.message)
	}
	if size != c.bytes || size > maxKnownBytes || size < maxKnownBytes/2 {
		t.Errorf("%d bytes of messages are kept, counted as %d; the limit is %d", size, c.bytes, maxKnownBytes)
	}
}

// TestCorrelatorForgetsGroups checks that a Correlator forgets the events of deleted pods.
func TestCorrelatorForgetsGroups(t *testing.T) {
	var c Correlator
	for i := range 2000 {
		e := unhealthy(i*60, "down")
		e.UID = fmt.Sprint("u", i)
		c.Add(e)
	}
	if len(c.similar) > 100 {
		t.Errorf("%d groups are kept of pods of 10 minutes each", len(c.similar))
	}
}

func TestCut(t *testing.T) {
	for _, n := range []int{0, 1, MaxMessage - 1, MaxMessage} {
		if in := strings.Repeat("x", n); Cut(in) != in {
			t.Errorf("%d bytes are cut", n)
		}
	}
	for _, unit := range []string{"x", "ü", "漢", "🙂", "\x80"} {
		in := strings.Repeat(unit, MaxMessage+1)
		got := Cut(in)
		kept, _, ok := strings.Cut(got, "... [")
		if len(got) > MaxMessage || !ok || !strings.HasPrefix(in, kept) || len(kept) < MaxMessage-100 || utf8.ValidString(in) && !utf8.ValidString(got) {
			t.Errorf("%q: %d bytes: ...%q", unit, len(got), got[len(got)-80:])
		}
		if want := fmt.Sprintf("... [%d more bytes]", len(in)-len(kept)); !strings.HasSuffix(got, want) {
			t.Errorf("%q: want %q", got[len(got)-80:], want)
		}
	}
}
