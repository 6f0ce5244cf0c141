package complete

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/run"
)

// TestCompletionIsQuick checks that a completion returns in time even if its source never
// responds.
func TestCompletionIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := cli.New(cli.Streams{Out: &out, Err: &out})
		a.AddGlobalFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
		a.Settings.Ctx = t.Context()
		begin := time.Now()
		never := make(chan []string)
		found := readWithLimit(t.Context(), a, func(context.Context, *run.Node) []string { return <-never })
		if took := time.Since(begin); found != nil || took > completeWithin {
			t.Errorf("%v after %s", found, took)
		}
		close(never)
	})
}

func TestFixedCompletion(t *testing.T) {
	do := fixed([]string{"json", "jsonpath=", "yaml"})
	if words, directive := do(nil, nil, "j"); len(words) != 2 || directive != 6 {
		t.Errorf("%v %d", words, directive)
	}
	if words, directive := do(nil, nil, "y"); len(words) != 1 || directive != 4 {
		t.Errorf("%v %d", words, directive)
	}
}
