package view

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Aligned is a text in rows whose cells are aligned with those of adjacent rows. It is not a Table, because its blocks of
// rows have widths of their own, as in kubectl describe. The zero value is empty.
type Aligned struct {
	text bytes.Buffer
	out  *tabwriter.Writer // writes to text, without errors
}

// Row writes one row. It escapes the cells before the tabwriter measures them, as kubectl does.
func (t *Aligned) Row(cells ...string) {
	if t.out == nil {
		t.out = tabwriter.NewWriter(&t.text, 0, 8, 2, ' ', 0) // kubectl's widths
	}
	_, _ = io.WriteString(t.out, Escape(strings.Join(cells, "\t")+"\n"))
}

// endBlock separates the rows before from those after it.
func (t *Aligned) endBlock() {
	if t.out != nil {
		_ = t.out.Flush()
	}
}

// String returns the text.
func (t *Aligned) String() string {
	t.endBlock()
	return t.text.String()
}

// Print writes the text, wrapped and colored for the screen.
func (t *Aligned) Print(w io.Writer, s Screen) error {
	if _, err := io.WriteString(w, fitDescription(s, t.String())); err != nil {
		return fmt.Errorf("print a description: %w", err)
	}
	return nil
}

// fitDescription wraps a description and colors the pod's status.
func fitDescription(s Screen, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = s.Wrap(strings.TrimRight(line, "\n"))
		if value, ok := strings.CutPrefix(line, "Status:"); ok {
			word, _, _ := strings.Cut(strings.TrimSpace(value), " ")
			line = strings.Replace(line, word, s.Paint(word, HueOf(word)), 1)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
