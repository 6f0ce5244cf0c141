package store

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/identity"
)

// testJournal returns a journal of a pod that has no directory yet.
func testJournal(t *testing.T) (*Journal, identity.Layout, *[]event.Event) {
	t.Helper()
	layout := testLayout(t)
	var seen []event.Event
	j := &Journal{Pod: identity.Pod{Namespace: "default", Name: "web", UID: "u1"}, Next: func(e event.Event) { seen = append(seen, e) }}
	return j, layout, &seen
}

func readReasons(t *testing.T, layout identity.Layout) string {
	t.Helper()
	events, err := ReadJournal(layout, "u1")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range events {
		if e.Namespace != "default" || e.Pod != "web" || e.UID != "u1" || e.Time.IsZero() {
			t.Errorf("an event without its pod: %+v", e)
		}
		out = append(out, e.Reason)
	}
	return strings.Join(out, " ")
}

func makePodDir(t *testing.T, layout identity.Layout) {
	t.Helper()
	if err := os.MkdirAll(string(layout.Pod("u1")), 0o750); err != nil {
		t.Fatal(err)
	}
}

func TestJournalHoldsEventsBack(t *testing.T) {
	j, layout, seen := testJournal(t)
	j.Emit(event.Event{Reason: "Pulling"})
	if len(*seen) != 1 {
		t.Error("an event was not passed on immediately")
	}
	if got := readReasons(t, layout); got != "" {
		t.Errorf("written before there is a directory: %s", got)
	}
	if err := j.Open(layout); err == nil {
		t.Error("the journal was opened without a directory")
	}
	makePodDir(t, layout)
	for range 2 { // a second call has no effect
		if err := j.Open(layout); err != nil {
			t.Fatal(err)
		}
	}
	j.Emit(event.Event{Reason: "Pulled", Message: "two\nlines"})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := readReasons(t, layout); got != "Pulling Pulled" {
		t.Errorf("%q", got)
	}
	// After Close, the journal still passes events on, and buffers them.
	j.Emit(event.Event{Reason: "Late"})
	if len(*seen) != 3 {
		t.Errorf("%d events passed on", len(*seen))
	}
	// The next command continues the journal.
	if err := j.Open(layout); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := readReasons(t, layout); got != "Pulling Pulled Late" {
		t.Errorf("%q", got)
	}
}

// TestJournalCutShort checks that no line that a later podrun process appends is lost if a crash
// has truncated the last line.
func TestJournalCutShort(t *testing.T) {
	for _, tail := range []string{`{"reason":"Cre`, "{", "\x00\x00\x00"} {
		j, layout, _ := testJournal(t)
		makePodDir(t, layout)
		if err := j.Open(layout); err != nil {
			t.Fatal(err)
		}
		j.Emit(event.Event{Reason: "Pulled"})
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(layout.Pod("u1").Journal(), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(tail); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if got := readReasons(t, layout); got != "Pulled" {
			t.Errorf("after %q: %s", tail, got)
		}
		if err := j.Open(layout); err != nil {
			t.Fatal(err)
		}
		j.Emit(event.Event{Reason: "Created"})
		j.Emit(event.Event{Reason: "Started"})
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if got := readReasons(t, layout); got != "Pulled Created Started" {
			t.Errorf("going on after %q: %s", tail, got)
		}
	}
}

func TestJournalOfNobody(t *testing.T) {
	_, layout, _ := testJournal(t)
	if events, err := ReadJournal(layout, "u1"); err != nil || events != nil {
		t.Errorf("%v, %v", events, err)
	}
	makePodDir(t, layout)
	if err := os.Mkdir(layout.Pod("u1").Journal(), 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadJournal(layout, "u1"); err == nil {
		t.Error("a directory was opened as a journal")
	}
}

func TestJournalReportsFirstFailure(t *testing.T) {
	j, layout, seen := testJournal(t)
	makePodDir(t, layout)
	if err := j.Open(layout); err != nil {
		t.Fatal(err)
	}
	j.file.Close()
	j.Emit(event.Event{Reason: "Pulled"})
	if err := j.Close(); err == nil || !strings.Contains(err.Error(), "journal of pod default/web") {
		t.Errorf("%v", err)
	}
	if len(*seen) != 1 {
		t.Error("the event was not passed on")
	}
}

func TestJournalTakesManyAtOnce(t *testing.T) {
	_, layout, _ := testJournal(t)
	j := &Journal{Pod: identity.Pod{Namespace: "default", Name: "web", UID: "u1"}}
	makePodDir(t, layout)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			j.Emit(event.Event{Reason: fmt.Sprint(i), Message: strings.Repeat("x", 100_000)})
			if i == 10 {
				if err := j.Open(layout); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(readReasons(t, layout))
	slices.Sort(got)
	if len(slices.Compact(got)) != 20 {
		t.Errorf("%d events: %v", len(got), got)
	}
}
