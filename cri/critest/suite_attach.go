package critest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/cri"
)

// testAttach attaches to a container's process until the process exits.
func (s *suite) testAttach(t *testing.T) {
	p := s.pod(t)
	config := p.container("app", "sh", "-c", "read a; echo got $a; read a; echo then $a >&2; exit 3")
	config.Stdin, config.StdinOnce = true, true
	id := p.start(t, config)
	var out, errs bytes.Buffer
	if err := s.Streaming.Attach(t.Context(), id, cri.Streams{In: strings.NewReader("one\ntwo\n"), Out: &out, Err: &errs}); err != nil {
		t.Fatal(err)
	}
	if out.String() != "got one\n" || errs.String() != "then two\n" {
		t.Errorf("stdout %q, stderr %q", &out, &errs)
	}
	if status := s.ended(t, id); status.GetExitCode() != 3 {
		t.Errorf("the process exited with %d", status.GetExitCode())
	}
}

// testTerminal runs a command with a terminal, whose output is one stream. It also sends the
// terminal's size.
func (s *suite) testTerminal(t *testing.T) {
	p := s.pod(t)
	id := p.sh(t, "app", "sleep 1000")
	var out bytes.Buffer
	sizes := make(chan cri.TerminalSize, 1)
	sizes <- cri.TerminalSize{Width: 91, Height: 33}
	never, w := io.Pipe()
	defer w.Close()
	code, err := s.Streaming.Exec(t.Context(), id, []string{"sh", "-c", "echo out; echo err >&2; exit 4"}, cri.Streams{In: never, Out: &out, TTY: true, Sizes: sizes})
	if text := strings.ReplaceAll(out.String(), "\r", ""); err != nil || code != 4 || text != "out\nerr\n" {
		t.Errorf("code %d, %v, %q", code, err, text)
	}
}

// testForward forwards to a port on which no process listens.
func (s *suite) testForward(t *testing.T) {
	p := s.pod(t)
	c, err := s.Streaming.PortForward(t.Context(), p.id, 9)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if data, _ := io.ReadAll(c); len(data) > 0 {
		t.Errorf("read %q", data)
	}
	limited, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Err(limited); err == nil || !strings.Contains(err.Error(), "connect") {
		t.Errorf("the runtime returned the error %v, want one that contains connect", err)
	}
	none, err := s.Streaming.PortForward(t.Context(), "none", 9)
	if err == nil && s.cfg.Profile.ForwardsLate {
		defer none.Close()
		err = none.Err(limited)
	}
	if err == nil {
		t.Error("no error for a nonexistent sandbox")
	}
}
