package start

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/run/lifecycle"
)

// TestLastRuns checks which sandboxes podrun keeps because of their containers, which are in the format
// name@sandbox=state, from the newest to the oldest.
func TestLastRuns(t *testing.T) {
	states := map[string]lifecycle.State{"run": lifecycle.Running, "exit": lifecycle.Exited, "created": lifecycle.Created}
	for containers, want := range map[string]string{
		"":                                          "",
		"a@2=run a@1=exit a@0=exit":                 "1 2",
		"a@2=exit a@1=exit a@0=exit":                "2",
		"a@2=created a@1=run a@0=exit":              "0 2",
		"a@2=run a@1=run a@0=run":                   "2",
		"a@2=run b@1=exit a@0=exit":                 "0 1 2",
		"b@3=run a@2=run b@1=exit a@1=exit a@0=run": "1 2 3",
	} {
		var list []lifecycle.Container
		for _, text := range strings.Fields(containers) {
			name, rest, _ := strings.Cut(text, "@")
			box, state, _ := strings.Cut(rest, "=")
			list = append(list, lifecycle.Container{Name: name, SandboxID: box, State: states[state]})
		}
		if got := strings.Join(slices.Sorted(maps.Keys(lastRuns(list))), " "); got != want {
			t.Errorf("%s: sandboxes %q, want %q", containers, got, want)
		}
	}
}
