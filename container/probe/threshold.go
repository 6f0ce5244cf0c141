package probe

import "time"

// Outcome is the result of one probe, or of all results so far.
type Outcome string

// The outcomes, as written in the kubelet's events.
const (
	Success Outcome = "success"
	Failure Outcome = "failure"
	// Warning is a success with a notice for the user: a redirect to another host, which is
	// not followed.
	Warning Outcome = "warning"
	// Unknown means that a probe could not run; such a result is ignored. As a State's value
	// it means that a startup probe has reached neither threshold.
	Unknown Outcome = "unknown"
)

// Result is the result of one probe. Output is the text for the probe's event: the output of
// a command, or why the probe failed. Run returns at most 10 KiB.
type Result struct {
	Outcome Outcome
	Output  string
}

// Change is the effect of a result on a probe's value.
type Change int

// The values mean that the probe's value does not change, becomes Success, or becomes Failure.
const (
	Unchanged Change = iota
	Passed
	Failed
)

// State accumulates the results of one probe of one container. A new container has a new
// state. (The kubelet keeps the number of failures when a container crashes, so the first
// failure of the next container may kill it; podrun does not reproduce this.)
type State struct {
	// Value is Success or Failure, or Unknown for a startup probe that has reached neither
	// threshold.
	Value Outcome
	// Last is the most recent result, and Run is how many times in a row it has occurred.
	Last Outcome
	Run  int32
	// Done is true if this probe does not run again for this container: a startup probe has
	// reached a threshold, or a liveness probe failed and the container must be killed
	// (k/k#21751, k/k#117153).
	Done bool
	// First and Began are the start times of the first and of the latest probe.
	First, Began time.Time
}

// Initial returns a probe's state before its first result: the container counts as not ready
// and as alive until a probe reports otherwise.
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
// changes once the number of consecutive results has reached the threshold.
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
