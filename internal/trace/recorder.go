package trace

import (
	"context"
	"sync"
	"time"
)

// maxSpans limits the size of a trace. A command with 1,000 pods has about 20,000 spans.
const maxSpans = 50_000

// Recorder records the spans of one command. Its methods are safe for concurrent use. A nil
// Recorder records nothing.
type Recorder struct {
	began time.Time

	mu      sync.Mutex
	spans   []Span
	dropped int
}

// NewRecorder returns a recorder for a command that began at the given time.
func NewRecorder(began time.Time) *Recorder { return &Recorder{began: began} }

// Add records a span that has just ended.
func (r *Recorder) Add(kind Kind, name, object string, took time.Duration, err error) {
	if r == nil {
		return
	}
	s := Span{Kind: kind, Name: name, Object: object, Begin: (time.Since(r.began) - took).Microseconds(), Duration: took.Microseconds()}
	if err != nil {
		s.Error = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.spans) == maxSpans {
		r.dropped++
		return
	}
	r.spans = append(r.spans, s)
}

// Trace returns the spans recorded so far.
func (r *Recorder) Trace(command string) Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := Trace{Command: command, Began: r.began, Duration: time.Since(r.began).Microseconds(), Spans: append([]Span{}, r.spans...), Dropped: r.dropped}
	order(t.Spans)
	return t
}

type key struct{}

// With returns a context with the recorder r, which records the phases for which Begin is called
// with this context.
func With(ctx context.Context, r *Recorder) context.Context { return context.WithValue(ctx, key{}, r) }

// Begin begins a phase. The returned function ends it. If the context has no recorder, Begin and
// the returned function do nothing.
func Begin(ctx context.Context, name, object string) (end func()) {
	r, _ := ctx.Value(key{}).(*Recorder)
	if r == nil {
		return func() {}
	}
	begin := time.Now()
	return func() { r.Add(Phase, name, object, time.Since(begin), nil) }
}
