// Tracesvg draws the waterfall of a command from its trace:
//
//	podrun apply --trace=json:trace.json examples/hello.yaml
//	go run ./hack/tracesvg trace.json >docs/apply.svg
//
// Phases are dark bars, and calls to the runtime light ones; spans shorter than 1 ms are omitted.
package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"os"
	"strings"
)

// trace contains the fields of docs/trace.md that the picture requires; times are in µs.
type trace struct {
	Command    string `json:"command"`
	DurationUs int64  `json:"durationUs"`
	Spans      []span `json:"spans"`
}

type span struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Object     string `json:"object"`
	BeginUs    int64  `json:"beginUs"`
	DurationUs int64  `json:"durationUs"`
}

// The picture's sizes in pixels.
const (
	labels = 250 // width of the names
	width  = 560 // of the bars
	row    = 18
	top    = 28
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tracesvg:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: tracesvg FILE")
	}
	data, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var t trace
	if err := json.Unmarshal(data, &t); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	if t.DurationUs <= 0 {
		return fmt.Errorf("%s: no duration", args[0])
	}
	_, err = io.WriteString(w, draw(t))
	return err
}

func draw(t trace) string {
	var shown []span
	for _, s := range t.Spans {
		if s.DurationUs >= 1000 {
			shown = append(shown, s)
		}
	}
	height := top + row*len(shown) + 8
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", labels+width+70, height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n")
	fmt.Fprintf(&b, `<text x="8" y="17" font-weight="bold">%s, %d ms</text>`+"\n", html.EscapeString(t.Command), t.DurationUs/1000)
	for i := range 5 {
		at := labels + width*i/4
		fmt.Fprintf(&b, `<line x1="%[1]d" y1="%[2]d" x2="%[1]d" y2="%[3]d" stroke="#ddd"/><text x="%[1]d" y="17" fill="#777" text-anchor="middle">%[4]d</text>`+"\n", at, top-6, height-6, t.DurationUs*int64(i)/4000)
	}
	for i, s := range shown {
		y := top + row*i
		x, length := labels+float64(s.BeginUs)/float64(t.DurationUs)*width, float64(s.DurationUs)/float64(t.DurationUs)*width
		indent, color, name := 8, "#3367a6", s.Name
		if s.Kind == "call" {
			indent, color = 22, "#9dbfe3"
		} else if _, container, ok := strings.Cut(s.Object, " "); ok {
			name += " " + container
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text><rect x="%.1f" y="%d" width="%.1f" height="12" fill="%s"/><text x="%.1f" y="%d" fill="#555">%d</text>`+"\n",
			indent, y+11, html.EscapeString(name), x, y+1, max(length, 1), color, x+max(length, 1)+4, y+11, s.DurationUs/1000)
	}
	b.WriteString("</svg>\n")
	return b.String()
}
