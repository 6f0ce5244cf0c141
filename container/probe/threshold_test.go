package probe

import (
	"strings"
	"testing"
	"time"
)

// outcomes converts a text to outcomes, with one letter for each probe: s, f, w, and u for a
// probe that could not run.
func outcomes(letters string) []Outcome {
	var out []Outcome
	for _, l := range letters {
		out = append(out, map[rune]Outcome{'s': Success, 'f': Failure, 'w': Warning, 'u': Unknown}[l])
	}
	return out
}

// TestThresholds checks the worker's value after each probe: S (success), F (failure) or
// ? (unknown). A ! follows a value that changed, and a dot follows if the probe ended the worker.
func TestThresholds(t *testing.T) {
	for _, test := range []struct {
		name             string
		kind             Kind
		success, failure int32
		results, want    string
	}{
		{"readiness begins unready", Readiness, 1, 3, "", "F"},
		{"one success is ready", Readiness, 1, 3, "s", "F S!"},
		{"a warning is a success", Readiness, 1, 3, "w", "F S!"},
		{"failures from the start change nothing", Readiness, 1, 3, "ffff", "F F F F F"},
		{"two failures of three stay ready", Readiness, 1, 3, "sffsffs", "F S! S S S S S S"},
		{"the third failure in a row is unready", Readiness, 1, 3, "sfff", "F S! S S F!"},
		{"and goes on", Readiness, 1, 3, "sfffffs", "F S! S S F! F F S!"},
		{"two successes in a row", Readiness, 2, 1, "sfss", "F F F F S!"},
		{"a warning goes on a run of successes", Readiness, 2, 1, "sw", "F F S!"},
		{"what was not run doesn't count", Readiness, 1, 3, "usffufu", "F F S! S S S F! F"},
		{"nor does it break a run", Readiness, 3, 1, "sususf", "F F F F F S! F!"},
		{"liveness begins alive", Liveness, 1, 3, "", "S"},
		{"one failure of one kills", Liveness, 1, 1, "f", "S F!."},
		{"the third kills", Liveness, 1, 3, "ssfff", "S S S S S F!."},
		{"a success in between saves", Liveness, 1, 3, "ffsfff", "S S S S S S F!."},
		{"errors never kill", Liveness, 1, 1, "uuuu", "S S S S S"},
		{"startup is open at first", Startup, 1, 3, "", "?"},
		{"startup succeeds once", Startup, 1, 3, "ffs", "? ? ? S!."},
		{"startup fails", Startup, 1, 3, "fff", "? ? ? F!."},
		{"startup stays open on errors", Startup, 1, 1, "uu", "? ? ?"},
	} {
		plan := Plan{Kind: test.kind, PeriodSeconds: 10, SuccessThreshold: test.success, FailureThreshold: test.failure}
		letter := map[Outcome]string{Success: "S", Failure: "F", Unknown: "?"}
		state := plan.Initial()
		got := []string{letter[state.Value]}
		for _, o := range outcomes(test.results) {
			if state.Done {
				t.Fatalf("%s: ended after %v", test.name, got)
			}
			next, change := state.Next(plan, o, time.Unix(1, 0))
			word := letter[next.Value]
			if change != Unchanged {
				word += "!"
			}
			if (change == Passed) != (next.Value == Success && state.Value != Success) || (change == Failed) != (next.Value == Failure && state.Value != Failure) {
				t.Errorf("%s: change %d from %s to %s", test.name, change, state.Value, next.Value)
			}
			if next.Done {
				word += "."
			}
			got, state = append(got, word), next
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%s: %s, want %s", test.name, text, test.want)
		}
	}
}

func TestDue(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	plan := Plan{Kind: Readiness, InitialDelaySeconds: 5, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 1}
	for _, test := range []struct {
		name         string
		first, began float64 // start times of the first and the latest probe; 0 means none
		now          float64
		want         float64
	}{
		{"initial delay after the start", 0, 0, 1, 5},
		{"an old container: at once", 0, 0, 100, 5},
		{"the clock was set back: no more than the delay", 0, 0, -1000, -995},
		{"a period after the first", 5, 5, 6, 15},
		{"and after the second", 5, 15, 16, 25},
		{"a slow one: at the tick it ran over, which has passed", 5, 15, 27, 25},
		{"begun late: at the next tick", 5, 27, 28, 35},
		{"missed ticks are not made up for", 5, 57, 58, 65},
	} {
		state := plan.Initial()
		if test.first != 0 {
			state, _ = state.Next(plan, Success, at(test.first))
			if test.began != test.first {
				state, _ = state.Next(plan, Success, at(test.began))
			}
		}
		due, ok := Due(plan, state, start, at(test.now))
		if !ok || !due.Equal(at(test.want)) {
			t.Errorf("%s: %v %v, want %v", test.name, ok, due.Sub(start), at(test.want).Sub(start))
		}
	}
	plan.Kind = Liveness
	state, _ := plan.Initial().Next(plan, Failure, at(5))
	if due, ok := Due(plan, state, start, at(6)); ok {
		t.Errorf("a failed liveness probe is due again at %v", due)
	}
}

func TestEventTexts(t *testing.T) {
	for _, test := range []struct {
		kind   Kind
		result Result
		err    error
		want   string
	}{
		{Liveness, Result{Failure, "x"}, nil, "Unhealthy: Liveness probe failed: x"},
		// This is the recorded event of a kubelet for a command without output.
		{Liveness, Result{Outcome: Failure}, nil, "Unhealthy: Liveness probe failed: "},
		{Readiness, Result{Outcome: Unknown}, errTest, "Unhealthy: Readiness probe errored and resulted in unknown state: no way"},
		{Startup, Result{Outcome: Failure}, errTest, "Unhealthy: Startup probe errored and resulted in failure state: no way"},
		{Readiness, Result{Warning, "elsewhere"}, nil, "ProbeWarning: Readiness probe warning: elsewhere"},
		{Readiness, Result{Success, "x"}, nil, ": "},
	} {
		reason, message := Plan{Kind: test.kind}.eventOf(test.result, test.err)
		if got := reason + ": " + message; got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}

// TestAligned checks that a probe is late by at most 1 s if its period is at least 10 s, and otherwise by at
// most 250 ms.
func TestAligned(t *testing.T) {
	second := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct{ after, period, want time.Duration }{
		{0, 10 * time.Second, 0},
		{time.Millisecond, 10 * time.Second, time.Second},
		{999 * time.Millisecond, time.Hour, time.Second},
		{0, time.Second, 0},
		{time.Millisecond, time.Second, 250 * time.Millisecond},
		{501 * time.Millisecond, 9 * time.Second, 750 * time.Millisecond},
	} {
		if got := aligned(second.Add(test.after), test.period).Sub(second); got != test.want {
			t.Errorf("a probe with the period %s that is due at %s begins at %s, want %s", test.period, test.after, got, test.want)
		}
	}
}
