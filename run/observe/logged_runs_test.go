package observe

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/lifecycle"
)

// TestLoggedRuns checks which log files count as runs, and that the files of containers that the runtime still lists
// do not.
func TestLoggedRuns(t *testing.T) {
	l := identity.Layout{PodLogsDir: t.TempDir()}
	id := identity.Pod{Namespace: "default", Name: "web", UID: "u1"}
	for _, name := range []string{"app/0.log", "app/2.log.20260101-120000.gz", "app/1.log", "app/7.logs", "app/99999999999.log", "app/x.log", "app/-8.log", "app/9", "app/11.log/x",
		"known/5.log", "empty/notes", "0.log"} {
		file := filepath.Join(l.Logs(id), name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	obs := &lifecycle.Observed{Containers: []lifecycle.Container{{Name: "known"}}}
	want := map[string]uint32{"app": 3}
	if got := readLoggedRuns(l, "u1", obs); !maps.Equal(got, want) {
		t.Errorf("without a sandbox %v, want %v", got, want)
	}
	obs.Sandboxes = []lifecycle.Sandbox{{Pod: id}}
	if got := readLoggedRuns(l, "u1", obs); !maps.Equal(got, want) {
		t.Errorf("with a sandbox %v, want %v", got, want)
	}
	if got := readLoggedRuns(l, "u2", &lifecycle.Observed{}); got != nil {
		t.Errorf("another pod: %v", got)
	}
}
