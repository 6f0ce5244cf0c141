package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podrun/podrun/internal/problem"
)

// blockedWriter does not return from Write until it is opened.
type blockedWriter struct {
	open chan struct{}
	bytes.Buffer
}

// Write blocks until the test opens the writer.
func (w *blockedWriter) Write(p []byte) (int, error) {
	<-w.open
	return w.Buffer.Write(p)
}

// When the reader of stderr had stopped reading, writing a message blocked forever, and serve
// stopped supervising its pods.
func TestMessagesToABlockedStderr(t *testing.T) {
	for _, output := range []string{"", "json"} {
		t.Run(output, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stderr := &blockedWriter{open: make(chan struct{})}
				a := New(Streams{Out: io.Discard, Err: stderr})
				a.Output, a.JSONMessages = output, output == "json"
				a.QueueMessages()
				r := a.MessageRenderer()
				const all = 2000
				for i := range all {
					r.Warn(problem.List{{Object: fmt.Sprintf("pod default/p%d", i), Message: strings.Repeat("x", 1000), Warning: true}})
					if i == 0 {
						synctest.Wait() // the queue writes the first message from now on
					}
				}
				begun := time.Now()
				a.FlushMessages()
				if took := time.Since(begun); took != flushLimit {
					t.Errorf("a blocked stderr delays the exit by %s, want %s", took, flushLimit)
				}
				close(stderr.open)
				synctest.Wait()
				r.Warn(problem.List{{Object: "pod default/last", Message: "x", Warning: true}})
				a.FlushMessages()

				lines := strings.Split(strings.TrimSuffix(stderr.String(), "\n"), "\n")
				kept := len(lines) - 2
				for i, line := range lines[:kept] {
					if !strings.Contains(line, fmt.Sprintf("pod default/p%d", i)+map[string]string{"": ":", "json": `"`}[output]) {
						t.Fatalf("line %d: %.100s", i, line)
					}
				}
				lost := fmt.Sprintf("%d messages were not printed, because the output was not read", all-kept)
				if output == "json" {
					lost = `{"message":"` + lost + `","warning":true}`
				} else {
					lost = "warning: " + lost
				}
				if lines[kept] != lost || !strings.Contains(lines[kept+1], "pod default/last") {
					t.Errorf("after the kept messages: %.200q, want %q", lines[kept:], lost)
				}
				if size := kept * 1000; size < maxQueued*9/10 || size > maxQueued*11/10 {
					t.Errorf("kept %d messages", kept)
				}
			})
		})
	}
}
