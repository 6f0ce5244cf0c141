package view

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"text/tabwriter"
	"unicode/utf8"
)

// tableRows are the rows of a small table, with headings.
var tableRows = [][]Cell{
	{{"NAME", Plain}, {"READY", Plain}, {"STATUS", Plain}, {"AGE", Plain}},
	{{"web", Plain}, {"1/1", Plain}, {"Running", Green}, {"5m", Plain}},
	{{"ä-long-name", Plain}, {"0/1", Plain}, {"CrashLoopBackOff", Red}, {"", Plain}},
}

// Without a terminal, a table is identical to the output of kubectl's tabwriter.
func TestTableLikeTabwriter(t *testing.T) {
	var got, want bytes.Buffer
	tw := tabwriter.NewWriter(&want, 6, 4, 3, ' ', 0)
	for _, row := range tableRows {
		var cells []string
		for _, c := range row {
			cells = append(cells, c.Text)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := (Screen{}).Table(&got, tableRows); err != nil || got.String() != want.String() {
		t.Errorf("%v\n%s\nwant\n%s", err, got.String(), want.String())
	}
}

func TestTableOnTerminal(t *testing.T) {
	for width := 1; width < 60; width++ {
		var out bytes.Buffer
		if err := (Screen{Width: width}).Table(&out, tableRows); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %q", width, n, line)
			}
		}
	}
	var out bytes.Buffer
	if err := (Screen{Width: 28, Color: true}).Table(&out, tableRows[2:]); err != nil {
		t.Fatal(err)
	}
	if want := "ä-long-name   0/1   \x1b[31mCrashLo\x1b[0m…\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	// The widest columns are shortened first, so that the columns after them remain
	// visible.
	out.Reset()
	rows := [][]Cell{{{"NAME", Plain}, {"STATUS", Plain}, {"AGE", Plain}}, {{strings.Repeat("n", 50), Plain}, {"Running", Plain}, {"5m", Plain}}}
	if err := (Screen{Width: 40}).Table(&out, rows); err != nil {
		t.Fatal(err)
	}
	if want := "NAME                       STATUS    AGE\n" + strings.Repeat("n", 23) + "…   Running   5m\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

func TestFold(t *testing.T) {
	for _, c := range []struct {
		width      int
		text, want string
	}{
		{0, "one two three", "one two three"},
		{13, "one two three", "one two three"},
		{8, "one two three", "one two\n  three"},
		{20, "  pass  runtime  the runtime answers", "  pass  runtime  the\n        runtime\n        answers"},
		{10, "Status:       Running", "Status:\n  Running"},
		{6, "abcdefghijk", "abcdef\n  ghij\n  k"},
		{8, "first\n\nsecond line", "first\n\nsecond\n  line"},
		{1, "abc", "a\nb\nc"},
		{5, "äöü äöü", "äöü\n  ä\n  ö\n  ü"},
	} {
		got := Screen{Width: c.width}.Wrap(c.text)
		if c.width == 5 {
			got, c.want = fmt.Sprint(strings.Count(got, "ä")), "2" // nothing is lost
		}
		if got != c.want {
			t.Errorf("%q in %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
	long := "Normal  Pulled                  app: Container image \"registry.example:5000/busybox:1.36\" already present on machine"
	for width := 1; width < 130; width++ {
		for line := range strings.Lines((Screen{Width: width}).Wrap(long)) {
			if n := len(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("width %d: a line of %d: %q", width, n, line)
			}
		}
	}
}

func TestFitPull(t *testing.T) {
	const name, message = "app: registry.example:5000/busybox:1.36", "3.1 of 12.5 MB (24%), 60 kB/s"
	for _, c := range []struct {
		width int
		want  string
	}{
		{80, name + ": " + message},
		{39, "…ox:1.36: " + message},
		{33, message},
		{20, "3.1 of 12.5 MB (24%)"},
		{4, "3.1 "},
		{0, ""},
	} {
		if got := FitProgress(name, message, c.width); got != c.want {
			t.Errorf("width %d: %q, want %q", c.width, got, c.want)
		}
	}
}
