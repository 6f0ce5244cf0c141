package trace

import (
	"fmt"
	"io"
	"strings"
)

// bar is the width of the waterfall's bars, in columns.
const bar = 32

// WriteText writes the trace as a waterfall with one line per span. Each line contains the start
// time and the duration in milliseconds. The error is the writer's.
func (t Trace) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%10s %10s  %-*s  %s\n", "BEGIN ms", "TOOK ms", bar, "", t.Command)
	for _, s := range t.Spans {
		name := s.Name
		if s.Object != "" {
			name += " " + s.Object
		}
		if s.Kind == Call {
			name = "  " + name
		}
		if s.Error != "" {
			name += " (failed)"
		}
		fmt.Fprintf(&b, "%10.2f %10.2f  %s  %s\n", float64(s.Begin)/1000, float64(s.Duration)/1000, t.bar(s), name)
	}
	if t.Dropped > 0 {
		fmt.Fprintf(&b, "%d more spans not shown\n", t.Dropped)
	}
	fmt.Fprintf(&b, "%10.2f %10s  end\n", float64(t.Duration)/1000, "")
	_, err := io.WriteString(w, b.String())
	return err
}

// bar draws a span with a width of at least one column. Calls are drawn with = and phases with
// -.
func (t Trace) bar(s Span) string {
	column := func(at int64) int { return int(min(max(at, 0), t.Duration) * bar / max(t.Duration, 1)) }
	from := min(column(s.Begin), bar-1)
	to := max(column(s.Begin+s.Duration), from+1)
	mark := "-"
	if s.Kind == Call {
		mark = "="
	}
	return strings.Repeat(" ", from) + strings.Repeat(mark, to-from) + strings.Repeat(" ", bar-to)
}
