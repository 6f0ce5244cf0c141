package view

import (
	"io"
	"slices"
)

// Table collects the rows of a table, which Screen.Table prints.
type Table struct {
	Namespaces bool // rows begin with the namespace
	NoHeaders  bool
	Rows       [][]Cell
}

// Head adds the headings.
func (t *Table) Head(texts ...string) {
	if !t.NoHeaders {
		t.Row("NAMESPACE", texts...)
	}
}

// Row adds a row. It escapes the texts.
func (t *Table) Row(namespace string, texts ...string) {
	if t.Namespaces {
		texts = slices.Insert(slices.Clone(texts), 0, namespace)
	}
	cells := make([]Cell, len(texts))
	for i, text := range texts {
		cells[i].Text = OneLine(text)
	}
	t.Rows = append(t.Rows, cells)
}

// Color colors the cells of the last row with a text.
func (t *Table) Color(text string, h Hue) {
	for i, c := range t.Rows[len(t.Rows)-1] {
		if c.Text == OneLine(text) {
			t.Rows[len(t.Rows)-1][i].Hue = h
		}
	}
}

// Print writes the table without limits of width.
func (t *Table) Print(w io.Writer) error { return Screen{}.Table(w, t.Rows) }
