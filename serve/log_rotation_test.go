package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/observe"
)

// TestRotationOfARemovedContainer covers a container that is removed, with its log, after the list of
// running containers was read. It must cause no warning. If the runtime does not answer, podrun must
// report the failure.
func TestRotationOfARemovedContainer(t *testing.T) {
	rt := critest.ForTest(t)
	warnings := 0
	e := &node.Node{Client: rt.Client(), Settings: nodeconfig.Default(), Warn: func(l problem.List) { warnings += len(l) }}
	e.Settings.RootDir, e.Settings.PodLogsDir = t.TempDir(), t.TempDir()
	c := observe.Running{ID: "c1", Pod: identity.Pod{Namespace: "default", Name: "web", UID: "u1"}, Container: "app"}
	checkpoint := e.Layout().Pod(c.Pod.UID).Checkpoint()
	if err := os.MkdirAll(filepath.Dir(checkpoint), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(checkpoint, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The directory of the logs is removed last.
	for _, logs := range []bool{false, true} {
		if logs {
			if err := os.MkdirAll(filepath.Join(e.Layout().Logs(c.Pod), "app"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		rotateLogs(t.Context(), e, []observe.Running{c})
	}
	if warnings != 0 {
		t.Errorf("%d warnings about a container that was removed", warnings)
	}
	defer rt.Fault("ContainerStatus", critest.Fault{When: critest.Before})()
	if rotateLogs(t.Context(), e, []observe.Running{c}); warnings != 1 {
		t.Errorf("%d warnings, want 1, of a runtime that does not answer", warnings)
	}
}
