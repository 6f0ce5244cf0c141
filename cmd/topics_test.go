package cmd

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
)

// TestTopics checks that every help topic fits two screens of 24 lines and 88 columns,
// and that its flags exist.
func TestTopics(t *testing.T) {
	root := Commands()
	known := knownFlags(root)
	for _, name := range []string{"exit-codes", "config", "environment", "differences", "security"} {
		var help, complaints bytes.Buffer
		if code := Main(context.Background(), []string{"help", name}, cli.Streams{Out: &help, Err: &complaints}, "test", time.Now()); code != exit.OK || complaints.Len() > 0 {
			t.Errorf("help %s exits with %d: %s", name, code, complaints.String())
		}
		text, _, _ := strings.Cut(help.String(), "\nUsage:")
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if len(lines) < 10 || len(lines) > 40 {
			t.Errorf("help %s has %d lines, not 10 to 40", name, len(lines))
		}
		if c := grammar.Named(root, name); c == nil || !grammar.IsTopic(c) {
			t.Errorf("%s is not a help topic", name)
		}
		for _, line := range lines {
			// The terminal wraps the rows of exit-codes.
			if len(line) > 88 && name != "exit-codes" {
				t.Errorf("help %s: a line of %d columns: %s", name, len(line), line)
			}
		}
		for _, m := range flagInPage.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("help %s: podrun has no flag --%s", name, m[1])
			}
		}
	}
}

// TestTopicsAreNoCommands checks that `podrun config get-contexts` remains an error with a hint
// on what to use.
func TestTopicsAreNoCommands(t *testing.T) {
	var out, talk bytes.Buffer
	code := Main(context.Background(), []string{"config", "get-contexts"}, cli.Streams{Out: &out, Err: &talk}, "test", time.Now())
	if code != exit.Usage || !strings.Contains(talk.String(), `podrun has no command "config"`) {
		t.Errorf("code %d: %s%s", code, out.String(), talk.String())
	}
}
