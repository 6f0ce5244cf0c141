package crash

import (
	"slices"
	"testing"
)

func TestSplitLost(t *testing.T) {
	for name, test := range map[string]struct {
		leaks, left []string
		lost        int
	}{
		"nothing":                  {},
		"a shim without directory": {leaks: []string{lostShim + " a"}, lost: 1},
		"records alone":            {leaks: []string{"container of containerd a", "snapshot a", "runc's state b"}, lost: 2},
		"records of a task":        {leaks: []string{"snapshot a", "task a"}, left: []string{"snapshot a", "task a"}},
		"a file":                   {leaks: []string{"logs/x", "snapshot a"}, left: []string{"logs/x"}, lost: 1},
		"a rule, and its snapshot": {leaks: []string{"rule of a", "snapshot a"}, left: []string{"rule of a", "snapshot a"}},
	} {
		t.Run(name, func(t *testing.T) {
			if left, lost := splitLost(test.leaks); !slices.Equal(left, test.left) || lost != test.lost {
				t.Errorf("%q, %d; want %q, %d", left, lost, test.left, test.lost)
			}
		})
	}
}
