package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/trace"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/test/ring"
)

// canceledJoiner is a joiner whose context ends while it connects.
type canceledJoiner struct{ cancel context.CancelCauseFunc }

func (canceledJoiner) AddFlags(*pflag.FlagSet) {}

func (j canceledJoiner) Join(ctx context.Context, _ nodeconfig.Settings, _ func(problem.List), _ *serve.APIOptions) (serve.Cluster, error) {
	j.cancel(errors.New("the battery is empty"))
	<-ctx.Done()
	return nil, fmt.Errorf("connect: %w", ctx.Err())
}

// TestNodeMain checks that podrun-node reports why its context was canceled, and writes the trace.
func TestNodeMain(t *testing.T) {
	ring.RequireRoot(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	dir := t.TempDir()
	file := filepath.Join(dir, "trace.json")
	var out bytes.Buffer
	code := NodeMain(ctx, []string{"--config=", "--root-dir", dir, "--trace=json:" + file, dir}, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out}, "devel", time.Now(), canceledJoiner{cancel})
	if code == 0 || !strings.Contains(out.String(), "the battery is empty") {
		t.Errorf("code %d: %s", code, out.String())
	}
	var got trace.Trace
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &got)
	}
	if err != nil || got.Command != "podrun-node" || len(got.Spans) == 0 {
		t.Errorf("trace %+v: %v", got, err)
	}
}
