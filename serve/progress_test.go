package serve

import (
	"testing"
	"time"

	"github.com/podrun/podrun/serve/supervisor"
)

// TestProgress checks that podrun notifies the service manager's watchdog as long as podrun itself
// makes progress, whatever the state of the runtime is.
func TestProgress(t *testing.T) {
	down := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		summary supervisor.Summary
		problem string
		line    string
		stuck   string
	}{
		"all is well":              {supervisor.Summary{Pods: map[string]int{"supervised": 2}}, "", "2 pods: 2 supervised", ""},
		"no runtime":               {supervisor.Summary{}, "its store is damaged", "0 pods; the container runtime does not run: its store is damaged", ""},
		"the runtime is silent":    {supervisor.Summary{Down: down}, "", "0 pods; the container runtime has not answered since 2026-11-26T12:00:00Z", ""},
		"a worker is stuck":        {supervisor.Summary{Stuck: []string{"default/web"}, Down: down}, "x", "", "podrun has made no progress on it for 10 minutes"},
		"a loop is late":           {supervisor.Summary{Late: "the loop"}, "", "", "the loop has made no progress for 10 minutes"},
		"a loop and a worker are":  {supervisor.Summary{Late: "the loop", Stuck: []string{"default/web"}}, "", "", "podrun has made no progress on it for 10 minutes"},
		"a loop is late, no store": {supervisor.Summary{Late: "the loop"}, "x", "", "the loop has made no progress for 10 minutes"},
	} {
		line, stuck := progress(c.summary, RuntimeState{Problem: c.problem})
		message := ""
		if stuck != nil {
			message = stuck.Message
		}
		if line != c.line || message != c.stuck {
			t.Errorf("%s: %q, %q", name, line, message)
		}
	}
}
