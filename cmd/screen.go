package cmd

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// The values of --color.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// screen specifies how text is fitted to a stream. The zero value changes nothing.
type screen struct {
	width int // in columns; 0 without a terminal
	color bool
}

// isTerminal returns w if it is a terminal, else nil.
func isTerminal(w io.Writer) *os.File {
	f, ok := w.(*os.File)
	if !ok {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return f
}

// screenOf returns the current screen of a terminal, or the zero screen for nil. It
// honors NO_COLOR (no-color.org), and uses no colors on a dumb terminal, which would print
// escape sequences.
func (a *app) screenOf(terminal *os.File) screen {
	s := screen{color: a.color == colorAlways}
	if terminal == nil {
		return s
	}
	s.width, _ = sizeOf(terminal)
	term := os.Getenv("TERM")
	if a.color != colorNever && os.Getenv("NO_COLOR") == "" && term != "" && term != "dumb" {
		s.color = true
	}
	return s
}

// hue is a color of ECMA-48 (SGR).
type hue string

const (
	plain  hue = ""
	red    hue = "31"
	green  hue = "32"
	yellow hue = "33"
)

// paint colors a text, if the screen has colors.
func (s screen) paint(text string, h hue) string {
	if !s.color || h == plain || text == "" {
		return text
	}
	return "\x1b[" + string(h) + "m" + text + "\x1b[0m"
}

// hueOf returns the color of a status word: green if the pod is in its desired state, yellow
// for progress or a warning, red for a failure.
func hueOf(status string) hue {
	switch status {
	case "Running", "Succeeded", "Completed", "pass":
		return green
	case "Pending", "ContainerCreating", "PodInitializing", "Terminating", "Stopping", "NotReady", "Unknown", "Warning", "warn", "warning:":
		return yellow
	case "", "skip", "Normal", "Deleted", "Stopped":
		return plain
	}
	if strings.HasPrefix(status, "Init:") && strings.Contains(status, "/") {
		return yellow
	}
	return red
}

// cell is a colored part of a line.
type cell struct {
	text string
	hue  hue
}

// kubectl's minimum width of a column, and the space after it.
const (
	columnMin   = 6
	columnSpace = 3
	// columnFloor is the width, including its space, below which a column is not
	// shortened.
	columnFloor = 16
)

// table writes rows of cells in columns with kubectl's widths. If the terminal is too
// narrow, it first shortens the widest columns, down to columnFloor, and then truncates
// lines. All rows have the same number of cells, which are escaped.
func (s screen) table(w io.Writer, rows [][]cell) error {
	widths := columnWidths(rows)
	s.fitWidths(widths)
	var b strings.Builder
	for _, row := range rows {
		line := slices.Clone(row)
		for i := range line[:len(line)-1] {
			text := []rune(line[i].text)
			if len(text) > widths[i]-columnSpace {
				text = append(text[:widths[i]-columnSpace-1], '…')
			}
			line[i].text = string(text) + strings.Repeat(" ", max(widths[i]-len(text), 0))
		}
		b.WriteString(s.line(line) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// columnWidths returns the widths of the columns, with the space after them.
func columnWidths(rows [][]cell) (widths []int) {
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, columnMin)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text)+columnSpace)
		}
	}
	return widths
}

// hides reports whether the table must truncate lines.
func (s screen) hides(rows [][]cell) bool { return !s.fitWidths(columnWidths(rows)) }

// fits reports whether the screen is wide enough for a table with kubectl's widths.
func (s screen) fits(rows [][]cell) bool { return s.width <= 0 || s.excess(columnWidths(rows)) <= 0 }

// excess returns by how much the columns together exceed the width of the screen. The last
// column has no space after it.
func (s screen) excess(widths []int) int {
	over := -s.width - columnSpace
	for _, n := range widths {
		over += n
	}
	return over
}

// fitWidths reduces the widest columns until the table fits the terminal, and reports
// whether it does.
func (s screen) fitWidths(widths []int) bool {
	if s.width <= 0 {
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

// line joins cells, truncates the line to the width of the terminal, and colors it.
func (s screen) line(cells []cell) string {
	var b strings.Builder
	total := 0
	for _, c := range cells {
		total += utf8.RuneCountInString(c.text)
	}
	room := total
	if s.width > 0 && total > s.width {
		room = s.width - 1
	}
	for _, c := range cells {
		text := []rune(c.text)
		text = text[:min(len(text), room)]
		room -= len(text)
		word := strings.TrimRight(string(text), " ")
		b.WriteString(s.paint(word, c.hue) + string(text)[len(word):])
	}
	if s.width > 0 && total > s.width {
		b.WriteString("…")
	}
	return b.String()
}

// wrap breaks lines that are wider than the terminal between words. It indents the continuation
// lines to the line's second column, if the line has one.
func (s screen) wrap(text string) string {
	if s.width <= 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.Join(wrapLine([]rune(strings.ReplaceAll(line, "\t", "    ")), s.width), "\n")
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

// fitProgress fits the name of an image or container, and the progress of its pull or stop, to a line of the given width.
// The progress takes precedence; a name is truncated at its beginning, because its end is more
// specific.
func fitProgress(name, message string, width int) string {
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

// checkColor rejects an invalid value of --color.
func checkColor(value string) error {
	if value == "" || value == colorAuto || value == colorAlways || value == colorNever {
		return nil
	}
	return fmt.Errorf("--color=%s is not one of auto, always, never", value)
}
