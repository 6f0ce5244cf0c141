package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/internal/event"
)

// pullEvent is an event with the progress of a pull that many seconds after its start.
func pullEvent(seconds float64, p event.Pull) event.Event {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
	p.Image = "app:1"
	return event.Event{Time: at, Type: event.Normal, Reason: event.PullProgress, FieldPath: "spec.containers{app}", Message: p.String(), Pull: &p}
}

// Without a terminal, podrun prints little about a pull: nothing if the pull is quick,
// otherwise a line at each tenth, but at most one every two seconds.
func TestPlainProgress(t *testing.T) {
	var out bytes.Buffer
	r := &Renderer{W: &out}
	for tick := range 4 * 40 { // 40 s, four events a second, 100 MB
		seconds := float64(tick) / 4
		r.Event(pullEvent(seconds, event.Pull{State: event.Pulling, Bytes: int64(seconds * 2.5e6), Total: 100e6, Rate: 2.5e6}))
	}
	r.Event(pullEvent(40, event.Pull{State: event.PullEnded}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 10 || lines[0] != "Normal  PullProgress            app: app:1: 7.5 of 100.0 MB (7%), 2.5 MB/s" || !strings.Contains(lines[9], "(90%)") {
		t.Errorf("%d lines:\n%s", len(lines), out.String())
	}
	out.Reset()
	for tick := range 8 { // 2 s
		r.Event(pullEvent(float64(tick)/4, event.Pull{State: event.Pulling, Bytes: int64(tick), Total: 8}))
	}
	r.Event(pullEvent(2, event.Pull{State: event.PullEnded}))
	if out.Len() > 0 {
		t.Errorf("a quick pull: %s", out.String())
	}
	// If only the elapsed time is known, podrun prints it occasionally.
	for tick := range 4 * 60 {
		r.Event(pullEvent(float64(tick)/4, event.Pull{State: event.Pulling, Elapsed: time.Duration(tick) * 250 * time.Millisecond}))
	}
	if n := strings.Count(out.String(), "\n"); n != 4 || !strings.Contains(out.String(), "app:1: pulling, 18s\n") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

// Without a terminal, podrun prints what a stop waits for after 5 s, and then each time the duration has doubled.
func TestStopProgress(t *testing.T) {
	for name, c := range map[string]struct {
		r    *Renderer
		want []string
	}{
		"text":  {&Renderer{}, []string{"Normal  StopProgress            app: waiting for the preStop hook, up to 55s more", "Normal  StopProgress            app: waiting for the container to exit, up to 50s more", "up to 40s more", "up to 20s more"}},
		"JSON":  {&Renderer{Json: true}, []string{`"stop":{"state":"preStop","elapsed":5000000000,"graceLeft":55000000000}`, `"state":"exit"`, `"graceLeft":40000000000`, `"graceLeft":20000000000`}},
		"quiet": {&Renderer{Quiet: true}, []string{""}},
	} {
		var out bytes.Buffer
		c.r.W = &out
		for second := 2; second <= 60; second++ {
			p := event.Stop{State: event.StopWaits, Elapsed: time.Duration(second) * time.Second, Left: time.Duration(60-second) * time.Second}
			if second < 10 {
				p.State = event.StopRunsHook
			}
			if second == 60 {
				p = event.Stop{State: event.StopEnded}
			}
			c.r.Event(event.Event{Type: event.Normal, Reason: event.StopProgress, FieldPath: "spec.containers{app}", Message: p.String(), Stop: &p})
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("%s: %d lines:\n%s", name, len(lines), out.String())
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(lines[i], want) {
				t.Errorf("%s: line %q, want %q", name, lines[i], want)
			}
		}
	}
}
