package probe

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/internal/event"
)

// world is a runtime in which the test determines the results of commands. It logs all events, with
// the number of seconds since the start.
type world struct {
	start time.Time
	// exits returns a command's exit code. If exits is nil, all commands exit with 0.
	exits func(command string, second float64) int32
	takes map[string]time.Duration // duration of each command; a command without an entry takes no time

	mu      sync.Mutex
	lines   []string
	running int // number of running commands
	most    int // maximum of running so far
}

func (w *world) second() float64 { return time.Since(w.start).Seconds() }

func (w *world) log(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%g ", w.second())+fmt.Sprintf(format, args...))
}

func (w *world) exec(ctx context.Context, id string, command []string, _ time.Duration) ([]byte, []byte, int32, error) {
	w.mu.Lock()
	w.running++
	w.most = max(w.most, w.running)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.running--
		w.mu.Unlock()
	}()
	w.log("%s: %s", id, command[0])
	select {
	case <-time.After(w.takes[command[0]]):
	case <-ctx.Done():
		w.log("%s: %s canceled", id, command[0])
		return nil, nil, 0, ctx.Err()
	}
	if w.exits == nil {
		return nil, nil, 0, nil
	}
	code := w.exits(command[0], w.second())
	if code < 0 {
		return nil, nil, 0, errTest
	}
	return []byte("says " + command[0]), nil, code, nil
}

func (w *world) prober() *Prober {
	return NewProber(Options{
		Exec: w.exec,
		Emit: func(e event.Event) { w.log("%s %s %s: %s", e.Type, e.Reason, e.FieldPath, e.Message) },
		Report: func(id string, kind Kind, ok bool, message string) {
			w.log("%s %s %v %s", id, kind, ok, message)
		},
	})
}

// runs returns the times at which the given command ran.
func (w *world) runs(line string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, l := range w.lines {
		if second, rest, _ := strings.Cut(l, " "); rest == line {
			out = append(out, second)
		}
	}
	return strings.Join(out, " ")
}

func (w *world) want(t *testing.T, lines ...string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if diff := cmp.Diff(lines, w.lines); diff != "" {
		t.Errorf("what happened (-want +got):\n%s", diff)
	}
}

// execPlan returns the plan of a probe whose command is named after the kind of the probe.
func execPlan(kind Kind, delay, period, success, failure int32) Plan {
	return Plan{ID: testID, Container: "app", Kind: kind, Exec: []string{strings.ToLower(string(kind))},
		InitialDelaySeconds: delay, TimeoutSeconds: 1, PeriodSeconds: period, SuccessThreshold: success, FailureThreshold: failure}
}

func inWorld(t *testing.T, w *world, test func(t *testing.T, p *Prober)) {
	synctest.Test(t, func(t *testing.T) {
		w.start = time.Now()
		p := w.prober()
		test(t, p)
		p.Stop()
	})
}

func (w *world) container(plans ...Plan) []Container {
	return []Container{{ID: "c1", StartedAt: w.start, Plans: plans}}
}
