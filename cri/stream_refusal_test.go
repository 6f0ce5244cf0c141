package cri

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

const runcRefuses = `time="2026-11-22T07:00:00Z" level=error msg="exec failed: unable to start container process: exec: \"x\": executable file not found in $PATH"` + "\n"

func TestRefusal(t *testing.T) {
	terminal := "\x1b[31mERRO\x1b[0m[0000] exec failed: unable to start container process: exec: \"x\": executable file not found in $PATH \r\n"
	crun := "executable file `x` not found in $PATH: No such file or directory\n"
	for _, c := range []struct {
		name   string
		writes []string
		code   int
		why    string // expected reason in the error; "" if no error is expected
	}{
		{"nothing", nil, 3, ""},
		{"output", []string{"one\n", "two"}, 255, ""},
		{"runc", []string{runcRefuses}, 255, `exec: "x": executable file not found in $PATH`},
		{"runc on a terminal", []string{terminal}, 255, `exec: "x": executable file not found in $PATH`},
		{"crun", []string{crun}, 1, "executable file `x` not found in $PATH: No such file or directory"},
		{"crun, of another program", []string{strings.ReplaceAll(crun, "`x`", "`y`")}, 1, ""},
		{"a program that logs as runc does", []string{runcRefuses}, 1, ""},
		{"runc's words and more", []string{runcRefuses, "more\n"}, 255, ""},
		{"a log line", []string{`time="2026-11-22T07:00:00Z" level=info msg="hello"` + "\n"}, 255, ""},
		{"a prompt", []string{"t", "ime: "}, 0, ""},
		{"a long line", []string{`time="`, strings.Repeat("x", maxRefusal), "y\n"}, 255, ""},
	} {
		var out bytes.Buffer
		r := &refusal{}
		s := r.watch(Streams{Err: &out})
		for _, w := range c.writes {
			if n, err := s.Err.Write([]byte(w)); n != len(w) || err != nil {
				t.Errorf("%s: Write: %d, %v", c.name, n, err)
			}
		}
		code, err := r.result(c.code, []string{"x", "-v"})
		why, _, _ := ExecFailure(err)
		if c.why != "" && (why != c.why || code != 0 || out.Len() > 0) {
			t.Errorf("%s: code %d, %v; it wrote %q", c.name, code, err, &out)
		}
		if c.why == "" && (err != nil || code != c.code || out.String() != strings.Join(c.writes, "")) {
			t.Errorf("%s: code %d, %v; it wrote %q", c.name, code, err, &out)
		}
	}
}

// TestRefusalPasses checks that a prompt, and a stream to which the runtime does not print, are
// passed on immediately.
func TestRefusalPasses(t *testing.T) {
	var out, errs bytes.Buffer
	r := &refusal{}
	s := r.watch(Streams{Out: &out, Err: &errs})
	for _, w := range []string{"t", "~ # "} {
		_, _ = s.Err.Write([]byte(w)) // The error is ignored, because a write to a buffer never fails.
		if !strings.HasSuffix(errs.String(), w) {
			t.Errorf("%q is held back", w)
		}
	}
	_, _ = s.Out.Write([]byte(runcRefuses))
	if out.String() != runcRefuses {
		t.Error("stdout is held back")
	}
	r = &refusal{}
	s = r.watch(Streams{Out: failing{}, TTY: true})
	if _, err := s.Out.Write([]byte("x")); !errors.Is(err, errFailing) {
		t.Errorf("the error of the output is lost: %v", err)
	}
}

type failing struct{}

var errFailing = errors.New("no")

func (failing) Write([]byte) (int, error) { return 0, errFailing }
