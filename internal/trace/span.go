package trace

import (
	"cmp"
	"slices"
	"time"
)

// Kind says what a span is of.
type Kind string

// The kinds of spans.
const (
	Phase Kind = "phase" // a part of the command's own work
	Call  Kind = "call"  // a call to the runtime
)

// Span is a stretch of a command's time. Times are in microseconds, from the command's
// begin.
type Span struct {
	Kind     Kind   `json:"kind"`
	Name     string `json:"name"`             // facts, RunPodSandbox
	Object   string `json:"object,omitempty"` // the pod, or the pod and its container; empty for all
	Begin    int64  `json:"beginUs"`
	Duration int64  `json:"durationUs"`
	Error    string `json:"error,omitempty"`
}

// Trace is what a command did. It is what --trace=json:FILE writes.
type Trace struct {
	Command  string    `json:"command"` // podrun apply, without arguments
	Began    time.Time `json:"began"`
	Duration int64     `json:"durationUs"`
	Spans    []Span    `json:"spans"` // by their begin, longer ones first
	// Dropped is how many spans there were beyond the limit of a trace.
	Dropped int `json:"dropped,omitempty"`
}

// order sorts spans so that one comes before those that it contains.
func order(spans []Span) {
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(b.Duration, a.Duration))
	})
}
