package store

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/statefile"
)

// TestBrokenCheckpoint checks that podrun advises to delete a pod only if its checkpoint is lost, and not if
// the checkpoint cannot be read at the moment.
func TestBrokenCheckpoint(t *testing.T) {
	id := identity.Pod{Namespace: "default", Name: "web"}
	for name, test := range map[string]struct {
		state   statefile.State
		err     error
		corrupt bool
		hint    string
	}{
		"corrupt":     {statefile.Corrupt, nil, true, "podrun delete"},
		"bad disk":    {statefile.Unreadable, unix.EIO, false, "make the file readable, or"},
		"descriptors": {statefile.Unreadable, unix.EMFILE, false, "run the command again"},
		"memory":      {statefile.Unreadable, unix.ENOMEM, false, "run the command again"},
		"deadline":    {statefile.Unreadable, context.DeadlineExceeded, false, "run the command again"},
		"newer":       {statefile.Newer, nil, false, ""},
	} {
		err := BrokenCheckpoint(id, &statefile.Fault{Path: "pod.yaml", State: test.state, Err: test.err})
		hint := err.(*problem.Error).Hint
		if IsCorrupt(err) != test.corrupt || !strings.HasPrefix(strings.TrimPrefix(hint, "'"), test.hint) && !strings.Contains(hint, test.hint) {
			t.Errorf("%s: corrupt %t, hint %q", name, IsCorrupt(err), hint)
		}
		if test.hint == "run the command again" && strings.Contains(hint, "delete") {
			t.Errorf("%s: hint %q", name, hint)
		}
	}
}
