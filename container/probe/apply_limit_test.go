package probe

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/podrun/podrun/internal/event"
)

// TestD5OutputIsBounded checks that podrun keeps at most 10 KiB of any response of a container.
// The kubelet has the same limit for the output of a command and for an HTTP response.
func TestD5OutputIsBounded(t *testing.T) {
	huge := func(context.Context, string, []string, time.Duration) ([]byte, []byte, int32, error) {
		return []byte(strings.Repeat("漢", 1<<20)), []byte(strings.Repeat("e", 1<<20)), 1, nil
	}
	broken := func(context.Context, string, []string, time.Duration) ([]byte, []byte, int32, error) {
		return nil, nil, 0, errors.New(strings.Repeat("ü", 1<<20))
	}
	slow := func(context.Context, string, []string, time.Duration) ([]byte, []byte, int32, error) {
		return nil, nil, 0, context.DeadlineExceeded
	}
	for name, test := range map[string]struct {
		plan   Plan
		target Target
	}{
		"command":        {Plan{Exec: []string{"x"}}, Target{Exec: huge}},
		"command to run": {Plan{Exec: []string{"x"}}, Target{Exec: broken}},
		"long command":   {Plan{Exec: []string{strings.Repeat("x", 1<<20)}}, Target{Exec: slow}},
	} {
		test.plan.TimeoutSeconds = 120 // a busy machine may need more than ten seconds for the huge response
		got, err := Run(t.Context(), test.plan, test.target)
		if len(got.Output) > maxOutput || !utf8.ValidString(got.Output) || err == nil && len(got.Output) < maxOutput-4 {
			t.Errorf("%s: %d bytes of output, %.100q (%v)", name, len(got.Output), got.Output, err != nil)
		}
		if _, message := test.plan.eventOf(got, err); len(message) > event.MaxMessage {
			t.Errorf("%s: an event of %d bytes", name, len(message))
		}
	}
}

// TestHeadersAreBounded checks that podrun does not receive a header of any size: neither the status of a gRPC
// response nor the header of an HTTP response. The probe fails.
func TestHeadersAreBounded(t *testing.T) {
	plan := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 2*maxHeader)) })
	plan.TimeoutSeconds = 120
	if got, err := Run(t.Context(), plan, local); got.Outcome != Failure || err != nil || !strings.Contains(got.Output, "headers exceeded") {
		t.Errorf("HTTP: %+v, %v", got, err)
	}
	plan = Plan{GRPC: &GRPC{Port: serveGRPC(t, &health{}), Service: "huge"}, TimeoutSeconds: 120}
	if got, err := Run(t.Context(), plan, local); got.Outcome != Failure || err != nil || len(got.Output) > 1<<10 {
		t.Errorf("gRPC: %s, %d bytes, %v", got.Outcome, len(got.Output), err)
	}
}
