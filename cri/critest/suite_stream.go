package critest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/status"

	"github.com/podrun/podrun/cri"
)

// testStream runs commands with their streams connected.
func (s *suite) testStream(t *testing.T) {
	p := s.pod(t)
	id := p.sh(t, "app", "sleep 1000")
	for _, c := range []struct {
		script, in, out, err string
		code                 int
	}{
		{"true", "", "", "", 0},
		{"echo out; echo err >&2; exit 7", "", "out\n", "err\n", 7},
		{"cat", strings.Repeat("0123456789abcde\n", 1<<14), strings.Repeat("0123456789abcde\n", 1<<14), "", 0},
		{"read a; echo got $a", "first\nsecond\n", "got first\n", "", 0},
		{"exit 255", "never read", "", "", 255},
	} {
		var out, errs bytes.Buffer
		streams := cri.Streams{Out: &out, Err: &errs}
		if c.in != "" {
			streams.In = strings.NewReader(c.in)
		}
		code, err := s.Streaming.Exec(t.Context(), id, []string{"sh", "-c", c.script}, streams)
		if err != nil || code != c.code || out.String() != c.out || errs.String() != c.err {
			t.Errorf("%s: code %d, %v, %d bytes out, stderr %q; want %d, %d bytes, %q",
				c.script, code, err, out.Len(), errs.String(), c.code, len(c.out), c.err)
		}
	}
}

// testStreamLive reads a command's output while it runs, and closes the streams early.
func (s *suite) testStreamLive(t *testing.T) {
	p := s.pod(t)
	id := p.sh(t, "app", "sleep 1000")
	r, w := io.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		_, err := s.Streaming.Exec(ctx, id, []string{"sh", "-c", "echo up; sleep 1000"}, cri.Streams{Out: w, Err: io.Discard})
		done <- err
	}()
	line := make([]byte, 3)
	if _, err := io.ReadFull(r, line); err != nil || string(line) != "up\n" {
		t.Errorf("read %q, %v", line, err)
	}
	enough := errors.New("enough")
	cancel(enough)
	select {
	case err := <-done:
		if !errors.Is(err, enough) {
			t.Errorf("Exec returned the error %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Exec did not return within a minute")
	}
}

func (s *suite) testStreamRefused(t *testing.T) {
	p := s.pod(t)
	id := p.sh(t, "app", "sleep 1000")
	nowhere := cri.Streams{Out: io.Discard, Err: io.Discard}
	for _, tty := range []bool{false, true} {
		var out, errs bytes.Buffer
		_, err := s.Streaming.Exec(t.Context(), id, []string{"no-such-program"}, cri.Streams{Out: &out, Err: &errs, TTY: tty})
		// The runtime has lost the output, which contains the reason.
		for tries := 0; tty && s.cfg.Profile.LosesOutput && err == nil && tries < 50; tries++ {
			_, err = s.Streaming.Exec(t.Context(), id, []string{"no-such-program"}, cri.Streams{Out: &out, Err: &errs, TTY: tty})
		}
		_, ok := errors.AsType[*cri.ExecError](err)
		if why, absent, _ := cri.CommandFailure(err); !ok || !absent || why != `exec: "no-such-program": executable file not found in $PATH` {
			t.Errorf("terminal %v: got the reason %q from the error %v", tty, why, err)
		}
		if out.Len()+errs.Len() > 0 {
			t.Errorf("terminal %v: the failed command wrote %q and %q", tty, &out, &errs)
		}
	}
	if err := s.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	_, err := s.Streaming.Exec(t.Context(), id, []string{"true"}, nowhere)
	if !cri.NotRunning(err) {
		t.Errorf("got %v", err)
	}
	if err := s.RemoveContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err = s.Streaming.Exec(t.Context(), id, []string{"true"}, nowhere)
	wantCode(t, err, status.Code(s.cfg.Profile.noContainerStreams(id)))
}
