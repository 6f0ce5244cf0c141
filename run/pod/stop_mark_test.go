package pod

import (
	"errors"
	"testing"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/store"
)

// TestStopMark checks the error of a command whose pod another command has stopped, and that a second stop of an
// interrupted pod keeps the record of the interruption: the next start runs the pod again.
func TestStopMark(t *testing.T) {
	p, _ := testPod(t)
	if err := p.WasStopped(); err != nil {
		t.Errorf("before: %v", err)
	}
	for _, stop := range []struct{ interrupts, want bool }{{false, false}, {true, true}, {false, true}} {
		if err := p.MarkStopped("was stopped by process 7", "run 'podrun start web'", stop.interrupts); err != nil {
			t.Fatal(err)
		}
		if mark := store.ReadStopMark(p.Plan.Layout, "u"); mark == nil || mark.Interrupted != stop.want {
			t.Errorf("a stop that interrupts: %v; the record has %+v", stop.interrupts, mark)
		}
	}
	for removed, hint := range map[bool]string{false: "run 'podrun start web'", true: ""} {
		p.RemovedAtEnd = removed
		e, _ := errors.AsType[*problem.Error](p.WasStopped())
		if e == nil || e.Kind != problem.Failed || e.Error() != "pod default/web: was stopped by process 7" || e.Hint != hint {
			t.Errorf("stopped: %+v", e)
		}
	}
	for range 2 {
		if err := p.ClearStopped(); err != nil || p.WasStopped() != nil {
			t.Errorf("after the start: %v, %v", err, p.WasStopped())
		}
	}
}

// TestEventPath checks the field paths of events.
func TestEventPath(t *testing.T) {
	p, _ := testPod(t)
	for container, want := range map[string]string{"": "", "app": "spec.containers{app}", "setup": "spec.initContainers{setup}"} {
		if got := p.EventPath(container); got != want {
			t.Errorf("%s: %s, want %s", container, got, want)
		}
	}
}
