package run

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/problem"
)

// Only containerd lets images in; for another runtime the command fails at once.
func TestLoadIntoAnotherRuntime(t *testing.T) {
	r := newRig(t, critest.Version("cri-o", "1.31.0"))
	_, err := r.engine().LoadImages(t.Context(), strings.NewReader("no archive"))
	var e *problem.Error
	if !errors.As(err, &e) || e.Kind != problem.Refused || !strings.Contains(err.Error(), "into containerd only, and this is cri-o") || !strings.Contains(e.Hint, "skopeo copy docker-archive:FILE containers-storage:NAME") {
		t.Errorf("%v", err)
	}
}

// F9: a standard input that sends nothing ends with the command.
func TestF9LoadEndsWithContext(t *testing.T) {
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	silent, w := io.Pipe()
	defer w.Close()
	time.AfterFunc(10*time.Millisecond, func() { cancel(stopped) })
	if _, _, err := tarWithin(ctx, silent); !errors.Is(err, stopped) {
		t.Error(err)
	}
}
