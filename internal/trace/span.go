package trace

import (
	"cmp"
	"slices"
	"time"
)

// Kind is the kind of a span.
type Kind string

// The kinds of spans.
const (
	Phase Kind = "phase" // a part of the command's own work
	Call  Kind = "call"  // a call to the runtime
)

// Span is an interval of a command's run time. Times are in microseconds since the command
// began.
type Span struct {
	Kind     Kind   `json:"kind"`
	Name     string `json:"name"`             // facts, RunPodSandbox
	Object   string `json:"object,omitempty"` // the pod, or the pod and its container; empty if the span concerns all pods
	Begin    int64  `json:"beginUs"`
	Duration int64  `json:"durationUs"`
	Error    string `json:"error,omitempty"`
}

// Trace is the record of a command, as written by --trace=json:FILE.
type Trace struct {
	Command  string    `json:"command"` // podrun apply, without arguments
	Began    time.Time `json:"began"`
	Duration int64     `json:"durationUs"`
	Spans    []Span    `json:"spans"` // sorted by Begin, longer ones first
	// Dropped is the number of spans beyond the limit of a trace.
	Dropped int `json:"dropped,omitempty"`
}

// order sorts spans so that each span precedes the spans that it contains.
func order(spans []Span) {
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(b.Duration, a.Duration))
	})
}
