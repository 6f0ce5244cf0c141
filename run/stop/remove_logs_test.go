package stop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
)

// TestRemoveLogsConcurrently covers two processes that remove the logs of a pod concurrently, such
// as a delete and the removal of earlier runs under disk pressure. The second process once failed with
// ENOENT if the first one had already removed a link.
func TestRemoveLogsConcurrently(t *testing.T) {
	dir := t.TempDir()
	p := &prepare.Plan{ID: identity.Pod{Namespace: "default", Name: "web", UID: "u"}, Layout: identity.Layout{
		PodLogsDir: filepath.Join(dir, "logs"), ContainerLogsDir: filepath.Join(dir, "links"),
	}}
	logs := filepath.Join(p.Layout.Logs(p.ID), "app")
	for _, d := range []string{logs, p.Layout.ContainerLogsDir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 500 {
		name := fmt.Sprint(i)
		if err := os.Symlink(filepath.Join(logs, name+".log"), p.Layout.LegacyLog(p.ID, "app", name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range node.InParallel([]*Remover{NewRemover(pod.New(&node.Node{}, p), nil), NewRemover(pod.New(&node.Node{}, p), nil)}, (*Remover).Logs) {
		if err != nil {
			t.Errorf("%.200v", err)
		}
	}
	for _, d := range []string{p.Layout.PodLogsDir, p.Layout.ContainerLogsDir} {
		if left, err := os.ReadDir(d); err != nil || len(left) > 0 {
			t.Errorf("%s: %d left, %v", d, len(left), err)
		}
	}
}
