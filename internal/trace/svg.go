package trace

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// These are the dimensions of the drawing in pixels.
const (
	svgLabels = 250 // width of the column of names
	svgBars   = 560 // width of the column of bars
	svgRow    = 18
	svgTop    = 28
)

// svgShortest is the duration in µs of the shortest span that WriteSVG draws. The label of a
// shorter span would be 0 ms.
const svgShortest = 1000

// WriteSVG draws the trace as a waterfall with one row per span. Bars are dark for phases,
// light for calls, and red for failed spans. The error is the writer's.
func (t Trace) WriteSVG(w io.Writer) error {
	var rows []Span
	for _, s := range t.Spans {
		if s.Duration >= svgShortest {
			rows = append(rows, s)
		}
	}
	height := svgTop + svgRow*len(rows) + 8
	if t.Dropped > 0 {
		height += svgRow
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", svgLabels+svgBars+70, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(&b, `<text x="8" y="17" font-weight="bold">%s, %d ms</text>`+"\n", html.EscapeString(t.Command), t.Duration/1000)
	for i := range 5 {
		x := svgLabels + svgBars*i/4
		fmt.Fprintf(&b, `<line x1="%[1]d" y1="%[2]d" x2="%[1]d" y2="%[3]d" stroke="#ddd"/><text x="%[1]d" y="17" fill="#777" text-anchor="middle">%[4]d</text>`+"\n",
			x, svgTop-6, height-6, t.Duration*int64(i)/4000)
	}
	for i, s := range rows {
		t.svgRow(&b, s, svgTop+svgRow*i)
	}
	if t.Dropped > 0 {
		fmt.Fprintf(&b, `<text x="8" y="%d">%d more spans not shown</text>`+"\n", svgTop+svgRow*len(rows)+11, t.Dropped)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// svgRow draws one span: its name, its bar and its duration in ms.
func (t Trace) svgRow(b *strings.Builder, s Span, y int) {
	indent, color, name := 8, "#3367a6", s.Name
	if s.Kind == Call {
		indent, color = 22, "#9dbfe3"
	} else if _, container, ok := strings.Cut(s.Object, " "); ok {
		name += " " + container
	}
	if s.Error != "" {
		color, name = "#c5221f", name+" (failed)"
	}
	scale := svgBars / float64(max(t.Duration, 1))
	x, length := svgLabels+float64(s.Begin)*scale, max(float64(s.Duration)*scale, 1)
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text><rect x="%.1f" y="%d" width="%.1f" height="12" fill="%s"/><text x="%.1f" y="%d" fill="#555">%d</text>`+"\n",
		indent, y+11, html.EscapeString(name), x, y+1, length, color, x+length+4, y+11, s.Duration/1000)
}
