package pods

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/container/podlog"
)

// The output must contain everything once and in order, and the attached output exactly. A step "log X"
// is output in the log, "attached X" the same from the attached streams, and "input" the time at which
// podrun passes on the input.
func TestExactOutput(t *testing.T) {
	random := strings.Repeat("\x00\xff\r\n\r\r\nx", 30000)
	for name, c := range map[string]struct {
		steps []string
		want  string
	}{
		"writes after it has read":       {[]string{"input", "attached a\r\nb", "log a\nb"}, "a\r\nb"},
		"the log is first":               {[]string{"input", "log a\n", "attached a\r\nb"}, "a\r\nb"},
		"binary":                         {[]string{"input", "attached " + random[:5], "log " + strings.ReplaceAll(random, "\r\n", "\n"), "attached " + random[5:]}, random},
		"before the attach":              {[]string{"log a\n", "input", "attached b\r\n", "log b\n"}, "a\nb\r\n"},
		"a prompt before the attach":     {[]string{"log a\n", "input", "attached hi bob\n", "log name? hi bob\n", "wait", "attached x\r\n", "log x\n"}, "a\nname? hi bob\nx\r\n"},
		"only the prompt":                {[]string{"input", "log name? "}, "name? "},
		"no newline":                     {[]string{"input", "attached ok? ", "wait", "attached yes\r\n", "log ok? yes\n"}, "ok? yes\r\n"},
		"writes without input":           {[]string{"log a\n", "attached b\r\n", "log b\n", "input", "attached c\r\n", "log c\n"}, "a\nb\nc\r\n"},
		"attached within a line":         {[]string{"attached b", "input", "attached c\r\n", "log bc\n"}, "bc\n"},
		"equal lines, late in the log":   {[]string{"input", "attached x\nx\n", "log x\nx\n", "attached x\n", "log x\n"}, "x\nx\nx\n"},
		"the streams fail":               {[]string{"input", "attached a\r\n", "log a\n", "fail", "log b\n"}, "a\r\nb\n"},
		"too late to attach":             {[]string{"log a\n", "fail", "log b\n"}, "a\nb\n"},
		"nothing":                        {[]string{"input"}, ""},
		"the log is not flushed in time": {[]string{"input", "attached b\r\n", "wait", "log a\nb\n", "attached c\r\n"}, "b\r\nc\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				e := newExactOutput(podlog.Output{Stdout: &out, Stderr: &out}, podlog.Output{Stdout: &out, Stderr: &out})
				for _, step := range c.steps {
					switch kind, text, _ := strings.Cut(step, " "); kind {
					case "log":
						write(t, e.logOutput().Stdout, text)
					case "attached":
						write(t, e.attachedOutput().Stdout, text)
					case "input":
						e.decide()
					case "fail":
						e.useLog()
					case "wait":
						time.Sleep(2 * joinWait)
					}
				}
				e.finish()
				if out.String() != c.want {
					t.Errorf("%.200q, want %.200q", out.String(), c.want)
				}
			})
		})
	}
}

func write(t *testing.T, to interface{ Write([]byte) (int, error) }, text string) {
	t.Helper()
	if n, err := to.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
}

// A program that writes all the time before podrun has passed on the input must not delay the input
// for ever.
func TestExactOutputDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e := newExactOutput(podlog.Output{Stdout: &out}, podlog.Output{Stdout: &out})
		done, written := make(chan struct{}), 0
		go func() { e.decide(); close(done) }()
		for {
			select {
			case <-done:
				write(t, e.attachedOutput().Stdout, "x\n")
				if n := strings.Count(out.String(), "x"); n != written {
					t.Errorf("%d lines, want the %d of the log", n, written)
				}
				return
			default:
				written++
				write(t, e.logOutput().Stdout, "x\n")
				time.Sleep(joinWait / 2)
			}
		}
	})
}

func TestIsBinary(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "text\n": false, "käse\n": false, "a\x00b": true, "\x1f\x8b\x08": true, "caf\xe9\n": true,
		"\x82\xac, then the rest of a character": false, "the begin of a character: \xe2\x82": false, "\xff": true,
	} {
		if isBinary([]byte(text)) != want {
			t.Errorf("%q: want %v", text, want)
		}
	}
}
