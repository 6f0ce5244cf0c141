package node

import (
	"testing"
	"time"
)

// TestPullLimit checks that the command's timeout for a pull applies only if the settings do not
// specify a timeout. The value 0 in the settings means no timeout.
func TestPullLimit(t *testing.T) {
	none, minute := time.Duration(0), time.Minute
	for name, test := range map[string]struct {
		set     *time.Duration
		command time.Duration
		want    time.Duration
	}{
		"neither":           {nil, 0, 0},
		"the command's":     {nil, 10 * time.Minute, 10 * time.Minute},
		"the settings'":     {&minute, 10 * time.Minute, time.Minute},
		"no limit, for run": {&none, 10 * time.Minute, 0},
	} {
		n := &Node{PullLimit: test.command}
		n.Settings.PullTimeout = test.set
		if got := n.pullLimit(); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
