package probe

import "time"

// Outcome is the result of one probe, or the combined result of all probes so far.
type Outcome string

// The outcomes, as in the kubelet's events.
const (
	Success Outcome = "success"
	Failure Outcome = "failure"
	// Warning is a success with a notice for the user: the server redirects to another host, and
	// the probe does not follow.
	Warning Outcome = "warning"
	// Unknown means that a probe could not run; podrun ignores such a result. As the value of a
	// State, it means that a startup probe has reached neither threshold.
	Unknown Outcome = "unknown"
)

// Result is the result of one probe. Output is the text for the probe's event. It is the output
// of a command, or the reason why the probe failed. Run returns at most 10 KiB of it.
type Result struct {
	Outcome Outcome
	Output  string
}

// Change is the effect of a result on the value of a probe.
type Change int

// The effects on the probe's value: unchanged, Success or Failure.
const (
	Unchanged Change = iota
	Passed
	Failed
)

// State accumulates the results of one probe of one container. A new container has a new state.
// (The kubelet keeps the number of failures when a container crashes, so that the first failure
// of the next container may kill it. podrun does not do this.)
type State struct {
	// Value is Success or Failure. It is Unknown for a startup probe that has reached neither
	// threshold.
	Value Outcome
	// Last is the most recent result. Run is the number of consecutive probes with this result.
	Last Outcome
	Run  int32
	// Done is true if this probe does not run again for this container, because a startup probe has
	// reached a threshold, or because a liveness probe has failed and the container must be killed
	// (k/k#21751, k/k#117153).
	Done bool
	// First is the start time of the first probe. Began is the start time of the latest one.
	First, Began time.Time
}

// Initial returns the state of a probe before its first result. Until a probe reports
// otherwise, the container counts as not ready and as alive.
func (p Plan) Initial() State {
	switch p.Kind {
	case Readiness:
		return State{Value: Failure}
	case Liveness:
		return State{Value: Success}
	}
	return State{Value: Unknown}
}

// Next returns the state after the result of a probe that began at the given time. The value
// changes when the number of equal consecutive results reaches the threshold.
func (s State) Next(p Plan, o Outcome, began time.Time) (State, Change) {
	if s.First.IsZero() {
		s.First = began
	}
	s.Began = began
	threshold := p.FailureThreshold
	switch o {
	case Unknown:
		return s, Unchanged
	case Success, Warning:
		o, threshold = Success, p.SuccessThreshold
	}
	if o != s.Last {
		s.Last, s.Run = o, 0
	}
	s.Run++
	if s.Run < threshold {
		return s, Unchanged
	}
	before := s.Value
	s.Value = o
	s.Done = p.Kind == Startup || (p.Kind == Liveness && o == Failure)
	switch {
	case before == o:
		return s, Unchanged
	case o == Success:
		return s, Passed
	}
	return s, Failed
}
