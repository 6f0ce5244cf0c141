package view

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// Escape replaces the characters that a terminal would interpret: control characters (C0, DEL and
// C1, including the CSI U+009B) and bytes that are not UTF-8. ESC and CR are escaped as in
// kubectl's WriteEscaped (k/k#101695, CVE-2021-25743), which replaces no other characters. All
// others are escaped as in Go. Newlines and tabs are kept, as are bidirectional controls, as in
// kubectl: they change only the order in which characters are displayed.
func Escape(text string) string {
	if !strings.ContainsFunc(text, ControlsTerminal) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\x1b':
			b.WriteString("^[")
		case r == '\r':
			b.WriteString(`\r`)
		case ControlsTerminal(r) && r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case ControlsTerminal(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[i : i+size])
		}
		i += size
	}
	return b.String()
}

// ControlsTerminal reports whether a terminal acts on r instead of displaying it.
func ControlsTerminal(r rune) bool {
	return r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0
}

// OneLine escapes a text that must not contain line breaks or tabs, such as a cell of a
// table.
func OneLine(text string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Escape(text))
}

// Indented indents the second and later lines of a text that podrun did not write, so that none
// of them can imitate a line of podrun.
func Indented(text string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n        ")
}

// TextWriter escapes text and writes it to a stream. Commands write all text through a textWriter.
// Data bypasses it (cli.App.Raw): logs and output of containers, JSON and YAML. Each call of Write must
// contain only whole characters.
type TextWriter struct {
	To  *io.Writer
	Raw *atomic.Bool // the terminal is raw: a newline does not return the cursor to column 0
}

// Write returns len(p), or 0 with an error.
func (w TextWriter) Write(p []byte) (int, error) {
	text := Escape(string(p))
	if w.Raw.Load() {
		text = strings.ReplaceAll(text, "\n", "\r\n")
	}
	if _, err := io.WriteString(*w.To, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

// EscapeJSON escapes characters that encoding/json leaves in strings: DEL and the control
// characters C1, and characters that YAML parsers reject (the noncharacters and the byte order
// mark). The strings keep their values.
func EscapeJSON(data []byte) []byte {
	unprintable := func(r rune) bool { return r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff }
	if !strings.ContainsFunc(string(data), unprintable) {
		return data
	}
	var b strings.Builder
	for _, r := range string(data) {
		if unprintable(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}
