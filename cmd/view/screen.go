package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The values of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// Screen specifies how text is fitted to a stream. The zero value changes nothing.
type Screen struct {
	Width int // in columns; 0 without a terminal
	Color bool
}

// Hue is a color of ECMA-48 (SGR).
type Hue string

const (
	Plain  Hue = ""
	Red    Hue = "31"
	Green  Hue = "32"
	Yellow Hue = "33"
)

// Paint colors a text, if the screen has colors.
func (s Screen) Paint(text string, h Hue) string {
	if !s.Color || h == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(h) + "m" + text + "\x1b[0m"
}

// HueOf returns the color of a status word: green if the pod is in its desired state, yellow
// for progress or a warning, red for a failure.
func HueOf(status string) Hue {
	switch status {
	case "Running", "Succeeded", "Completed", "pass":
		return Green
	case "Pending", "ContainerCreating", "PodInitializing", "Terminating", "Stopping", "NotReady", "Unknown", "Warning", "warn", "warning:":
		return Yellow
	case "", "skip", "Normal", "Deleted", "Stopped":
		return Plain
	}
	if strings.HasPrefix(status, "Init:") && strings.Contains(status, "/") {
		return Yellow
	}
	return Red
}

// Cell is a colored part of a line.
type Cell struct {
	Text string
	Hue  Hue
}

// kubectl's minimum width of a column, and the space after it.
const (
	columnMin   = 6
	columnSpace = 3
	// columnFloor is the width, including its space, below which a column is not
	// shortened.
	columnFloor = 16
)

// Table writes rows of cells in columns with kubectl's widths. If the terminal is too
// narrow, it first shortens the widest columns, down to columnFloor, and then truncates
// lines. The cells are escaped. The last cell of a row is not padded.
func (s Screen) Table(w io.Writer, rows [][]Cell) error {
	widths := columnWidths(rows)
	s.fitWidths(widths)
	var b strings.Builder
	for _, row := range rows {
		line := slices.Clone(row)
		for i := range line[:len(line)-1] {
			text := []rune(line[i].Text)
			if len(text) > widths[i]-columnSpace {
				text = append(text[:widths[i]-columnSpace-1], '…')
			}
			line[i].Text = string(text) + strings.Repeat(" ", max(widths[i]-len(text), 0))
		}
		b.WriteString(s.Line(line) + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print a table: %w", err)
	}
	return nil
}

// columnWidths returns the widths of the columns, with the space after them.
func columnWidths(rows [][]Cell) (widths []int) {
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, columnMin)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text)+columnSpace)
		}
	}
	return widths
}

// Hides reports whether the table must truncate lines.
func (s Screen) Hides(rows [][]Cell) bool { return !s.fitWidths(columnWidths(rows)) }

// Fits reports whether the screen is wide enough for a table with kubectl's widths.
func (s Screen) Fits(rows [][]Cell) bool { return s.Width <= 0 || s.excess(columnWidths(rows)) <= 0 }

// excess returns by how much the columns together exceed the width of the screen. The last
// column has no space after it.
func (s Screen) excess(widths []int) int {
	over := -s.Width - columnSpace
	for _, n := range widths {
		over += n
	}
	return over
}

// fitWidths reduces the widest columns until the table fits the terminal, and reports
// whether it does.
func (s Screen) fitWidths(widths []int) bool {
	if s.Width <= 0 {
		return true
	}
	for over := s.excess(widths); over > 0; over-- {
		widest := 0
		for i, n := range widths {
			if n > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= columnFloor {
			return false
		}
		widths[widest]--
	}
	return true
}

// Line joins cells, truncates the line to the width of the terminal, and colors it.
func (s Screen) Line(cells []Cell) string {
	var b strings.Builder
	total := 0
	for _, c := range cells {
		total += utf8.RuneCountInString(c.Text)
	}
	room := total
	if s.Width > 0 && total > s.Width {
		room = s.Width - 1
	}
	for _, c := range cells {
		text := []rune(c.Text)
		text = text[:min(len(text), room)]
		room -= len(text)
		word := strings.TrimRight(string(text), " ")
		b.WriteString(s.Paint(word, c.Hue) + string(text)[len(word):])
	}
	if s.Width > 0 && total > s.Width {
		b.WriteString("…")
	}
	return b.String()
}

// Wrap breaks lines that are wider than the terminal between words. It indents the continuation
// lines to the line's second column, if the line has one.
func (s Screen) Wrap(text string) string {
	if s.Width <= 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(wrapLine([]rune(strings.ReplaceAll(line, "\t", "    ")), s.Width), "\n")
	}
	return strings.Join(lines, "\n")
}

func wrapLine(line []rune, width int) (out []string) {
	indent := secondColumn(line)
	if indent > width/2 {
		indent = min(2, width/2)
	}
	prefix := ""
	for begin := indent; len(line) > width-len(prefix); begin = 0 {
		room := width - len(prefix)
		at := room
		for at > begin && line[at] != ' ' {
			at--
		}
		if at <= begin {
			at = room // a word that is longer than the line
		}
		out = append(out, prefix+strings.TrimRight(string(line[:at]), " "))
		line = []rune(strings.TrimLeft(string(line[at:]), " "))
		prefix = strings.Repeat(" ", indent)
	}
	return append(out, prefix+string(line))
}

// secondColumn returns the position after the first gap of at least two spaces that follows
// the indentation. If there is no gap, it returns a small indentation.
func secondColumn(line []rune) int {
	text := string(line)
	margin := len(text) - len(strings.TrimLeft(text, " "))
	gap := strings.Index(text[margin:], "  ")
	if gap < 0 {
		return min(margin+2, len(line))
	}
	rest := strings.TrimLeft(text[margin+gap:], " ")
	return len(line) - utf8.RuneCountInString(rest)
}

// FitProgress fits the name of an image or container, and the progress of its pull or stop, to a line of the given width.
// The progress takes precedence; a name is truncated at its beginning, because its end is more
// specific.
func FitProgress(name, message string, width int) string {
	n, m := []rune(name), []rune(message)
	room := width - len(m) - 2
	switch {
	case len(n) <= room:
		return name + ": " + message
	case room >= 4:
		return "…" + string(n[len(n)-room+1:]) + ": " + message
	}
	return string(m[:min(len(m), max(width, 0))])
}

// CheckColor rejects an invalid value of --color.
func CheckColor(value string) error {
	if value == "" || value == ColorAuto || value == ColorAlways || value == ColorNever {
		return nil
	}
	return fmt.Errorf("--color=%s is not one of auto, always, never", value)
}
