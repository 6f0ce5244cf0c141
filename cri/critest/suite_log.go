package critest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var logLine = regexp.MustCompile(`^(\S+) (stdout|stderr) ([FP]) (.*)$`)

// readLog checks the timestamps of a log's entries, and returns the entries without them.
func (s *suite) readLog(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for line := range strings.Lines(string(data)) {
		m := logLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			t.Fatalf("%s: %.80q is not a line in the CRI log format", path, line)
		}
		if at, err := time.Parse(time.RFC3339Nano, m[1]); err != nil || time.Since(at).Abs() > time.Hour {
			t.Errorf("%s: the timestamp %q is invalid, or differs from the current time by more than an hour (%v)", path, m[1], err)
		}
		entries = append(entries, strings.Join(m[2:], " "))
	}
	return entries
}

// awaitLog reads a log until it is complete: containerd 1.6 may report the exit of a container before it
// has written the last lines of its log. It returns what readLog returns, after a minute even if the log
// is incomplete.
func (s *suite) awaitLog(t *testing.T, path string, complete func(entries []string) bool) []string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		data, err := os.ReadFile(path)
		if err != nil || len(data) > 0 && data[len(data)-1] != '\n' {
			continue
		}
		if entries := s.readLog(t, path); complete(entries) || t.Failed() {
			return entries
		}
	}
	return s.readLog(t, path)
}

// atLeast returns a condition for awaitLog: the log has n entries.
func atLeast(n int) func(entries []string) bool {
	return func(entries []string) bool { return len(entries) >= n }
}

func (s *suite) testLog(t *testing.T) {
	p := s.pod(t)
	id := p.sh(t, "app", "echo one; printf 'cr\\r\\n'; echo two >&2; echo; printf %20000s x; echo; echo ' last '")
	st := s.ended(t, id)
	if want := filepath.Join(p.config.GetLogDirectory(), "app/0.log"); st.GetLogPath() != want {
		t.Errorf("the log is at %s, want %s", st.GetLogPath(), want)
	}
	pad := strings.Repeat(" ", 20000-1)
	var out, errs []string
	const last = "stdout F  last "
	complete := func(entries []string) bool {
		return slices.Contains(entries, last) && slices.ContainsFunc(entries, func(e string) bool { return strings.HasPrefix(e, "stderr ") })
	}
	for _, e := range s.awaitLog(t, st.GetLogPath(), complete) {
		if strings.HasPrefix(e, "stderr ") {
			errs = append(errs, e)
		} else {
			out = append(out, e)
		}
	}
	// The runtime reads the two streams concurrently, so the test can only check the order within
	// each stream.
	want := []string{"stdout F one", "stdout F cr", "stdout F "}
	if s.cfg.Profile.CarriageReturns {
		want[1] += "\r"
	}
	long, part := pad+"x", s.cfg.Profile.LogPart
	if s.cfg.Profile.PartReads {
		out = s.joined(t, out)
		part = len(long)
	}
	for ; len(long) > part; long = long[part:] {
		want = append(want, "stdout P "+long[:part])
	}
	want = append(want, "stdout F "+long, last)
	if !slices.Equal(out, want) {
		t.Errorf("stdout: got %.200q, want %.200q", out, want)
	}
	if !slices.Equal(errs, []string{"stderr F two"}) {
		t.Errorf("stderr: got %q", errs)
	}
}

// joined returns entries with the parts of each line joined, and checks that no part is too long.
func (s *suite) joined(t *testing.T, entries []string) []string {
	t.Helper()
	var out []string
	part, parts := "", 0
	for _, e := range entries {
		stream, text, _ := strings.Cut(e, " ")
		tag, text, _ := strings.Cut(text, " ")
		if len(text) > s.cfg.Profile.LogPart {
			t.Errorf("a part of a log line has %d bytes", len(text))
		}
		if part += text; tag == "P" {
			parts++
			continue
		}
		out, part = append(out, stream+" "+tag+" "+part), ""
	}
	if parts == 0 {
		t.Error("the runtime did not split the long line")
	}
	return out
}

func (s *suite) testLogTail(t *testing.T) {
	p := s.pod(t)
	st := s.ended(t, p.sh(t, "app", "printf tail"))
	if got := s.awaitLog(t, st.GetLogPath(), atLeast(1)); !slices.Equal(got, []string{"stdout P tail"}) {
		t.Errorf("got %q", got)
	}
}

// testLogTTY checks the log of a container with a terminal, whose output is one stream. runc disables carriage
// returns; CRI-O's monitor, conmon, enables them again.
func (s *suite) testLogTTY(t *testing.T) {
	p := s.pod(t)
	config := p.container("app", "sh", "-c", "echo out; echo err >&2")
	config.Tty = true
	st := s.ended(t, p.start(t, config))
	end := ""
	if s.cfg.Profile.CarriageReturns {
		end = "\r"
	}
	if got := s.awaitLog(t, st.GetLogPath(), atLeast(2)); !slices.Equal(got, []string{"stdout F out" + end, "stdout F err" + end}) {
		t.Errorf("got %q", got)
	}
}

// testLogReopened tests a rotation: it renames the file, and ReopenContainerLog creates a new one.
func (s *suite) testLogReopened(t *testing.T) {
	p := s.pod(t)
	config := p.container("app", "sh", "-c", "echo before; while [ ! -e /host/go ]; do sleep 0.02; done; echo after")
	let := lets(t, config)
	id := p.start(t, config)
	path := s.status(t, id).GetLogPath()
	s.awaitLog(t, path, atLeast(1))
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	reopen := &runtimeapi.ReopenContainerLogRequest{ContainerId: id}
	if _, err := s.Runtime.ReopenContainerLog(t.Context(), reopen); err != nil {
		t.Fatal(err)
	}
	let()
	s.ended(t, id)
	if got := s.readLog(t, path+".1"); !slices.Equal(got, []string{"stdout F before"}) {
		t.Errorf("the rotated log contains %q", got)
	}
	if got := s.awaitLog(t, path, atLeast(1)); !slices.Equal(got, []string{"stdout F after"}) {
		t.Errorf("the new log contains %q", got)
	}
	_, err := s.Runtime.ReopenContainerLog(t.Context(), reopen)
	wantCode(t, err, codes.Unknown)
}
