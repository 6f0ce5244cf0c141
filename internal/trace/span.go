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
	// A phase is a part of the command's own work.
	Phase Kind = "phase"
	// A call is a call to the runtime.
	Call Kind = "call"
)

// Span is an interval of the time in which a command runs. Times are in microseconds since the
// command began.
type Span struct {
	Kind     Kind   `json:"kind"`
	Name     string `json:"name"`             // such as facts or RunPodSandbox
	Object   string `json:"object,omitempty"` // the pod, or the pod and its container; empty if the span concerns all pods
	Begin    int64  `json:"beginUs"`
	Duration int64  `json:"durationUs"`
	Error    string `json:"error,omitempty"`
}

// Trace is the record of a command. --trace=json:FILE writes it.
type Trace struct {
	// Command is the command without arguments, such as podrun apply.
	Command  string    `json:"command"`
	Began    time.Time `json:"began"`
	Duration int64     `json:"durationUs"`
	// Spans are sorted by Begin. If two spans begin at the same time, the longer one comes first.
	Spans []Span `json:"spans"`
	// Dropped is the number of spans beyond the limit of a trace.
	Dropped int `json:"dropped,omitempty"`
}

// order sorts spans. Each span comes before the spans that it contains.
func order(spans []Span) {
	slices.SortStableFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(b.Duration, a.Duration))
	})
}
