package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// span is an interval of time.
type span struct{ begin, end time.Time }

// covered returns the part of the whole that the union of the spans covers.
func covered(whole span, spans []span) time.Duration {
	slices.SortFunc(spans, func(a, b span) int { return a.begin.Compare(b.begin) })
	var sum time.Duration
	at := whole.begin
	for _, s := range spans {
		if s.begin.Before(at) {
			s.begin = at
		}
		if s.end.After(whole.end) {
			s.end = whole.end
		}
		if s.end.After(s.begin) {
			sum += s.end.Sub(s.begin)
			at = s.end
		}
	}
	return sum
}

// overhead returns the part of podrun's wall time in which no call was in progress and no init
// container was running, according to the runtime.
func (t trace) overhead() time.Duration {
	var busy []span
	for _, c := range t.calls {
		busy = append(busy, span{c.Begin, c.End})
	}
	for _, c := range t.initContainers() {
		if e, ok := t.exits[c.id]; ok {
			busy = append(busy, span{c.started, e.Reported})
		}
	}
	return t.wall() - covered(span{t.Begin, t.End}, busy)
}

// print writes the calls in order. For each call, it writes the time of its beginning, its
// duration, and podrun's own time before it, in ms.
func (t trace) print(w io.Writer) {
	calls := slices.Clone(t.calls)
	slices.SortFunc(calls, func(a, b call) int { return a.Begin.Compare(b.Begin) })
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Fprintf(w, "%8s %8s %8s  call\n", "begin", "took", "own")
	idle := t.Begin
	for _, c := range calls {
		fmt.Fprintf(w, "%8.2f %8.2f %8.2f  %s\n", ms(c.Begin.Sub(t.Begin)), ms(c.End.Sub(c.Begin)), ms(max(0, c.Begin.Sub(idle))), c.Method)
		if c.End.After(idle) {
			idle = c.End
		}
	}
	fmt.Fprintf(w, "%8.2f %8s %8.2f  end\n", ms(t.wall()), "", ms(t.End.Sub(idle)))
}

// initContainer is an init container in a trace.
type initContainer struct {
	id      string
	started time.Time // time of the response to StartContainer
}

// initContainers returns all containers that were started before the pod's last one, in order.
func (t trace) initContainers() []initContainer {
	var all []initContainer
	for _, c := range t.calls {
		var request runtimeapi.StartContainerRequest
		if c.Method == "StartContainer" && proto.Unmarshal(c.Request, &request) == nil {
			all = append(all, initContainer{request.ContainerId, c.End})
		}
	}
	return all[:min(t.inits, len(all))]
}

// reactions returns the reaction times: each begins when the runtime reported the exit of an init
// container, and ends with the following StartContainer. If podrun detects the exit before the
// bench does, the reaction is 0. If finished is true, each time begins with the exit itself.
func (t trace) reactions(finished bool) []time.Duration {
	var starts []time.Time
	for _, c := range t.calls {
		if c.Method == "StartContainer" {
			starts = append(starts, c.Begin)
		}
	}
	var out []time.Duration
	for i, c := range t.initContainers() {
		e, ok := t.exits[c.id]
		if !ok || i+1 >= len(starts) {
			continue
		}
		at := e.Reported
		if finished {
			at = e.Finished
		}
		out = append(out, max(0, starts[i+1].Sub(at)))
	}
	return out
}
