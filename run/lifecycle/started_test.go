package lifecycle

import (
	"testing"
	"time"
)

// TestAnyStarted covers a container that was created and never started, but has exited, because
// CRI-O ends it together with its sandbox. It must not count as started.
func TestAnyStarted(t *testing.T) {
	now := time.Unix(1, 0)
	for name, c := range map[string]struct {
		container Container
		want      bool
	}{
		"created":                      {Container{State: Created}, false},
		"running":                      {Container{State: Running, StartedAt: now}, true},
		"ended":                        {Container{State: Exited, StartedAt: now, ExitCode: 137, Reason: "Error"}, true},
		"stopped before its start":     {Container{State: Exited, FinishedAt: now, ExitCode: 137, Reason: "Error"}, false},
		"its start failed, containerd": {Container{State: Exited, FinishedAt: now, ExitCode: 128, Reason: "StartError"}, true},
		"unknown":                      {Container{State: Unknown}, true},
	} {
		if got := AnyStarted(&Observed{Containers: []Container{c.container}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
