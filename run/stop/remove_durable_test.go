package stop

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/run/node"
	"github.com/podrun/podrun/run/pod"
	"github.com/podrun/podrun/run/prepare"
)

// TestRemovalIsDurable checks that podrun syncs the removal of a pod's directory. Without the sync,
// a supervisor once found the checkpoint of a deleted pod after a power failure, and started the
// pod.
func TestRemovalIsDurable(t *testing.T) {
	p := &prepare.Plan{ID: identity.Pod{Namespace: "default", Name: "web", UID: "u"}, Layout: identity.Layout{RootDir: t.TempDir(), RunDir: t.TempDir()}}
	if err := os.MkdirAll(string(p.Layout.Pod("u")), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Layout.Pod("u").Checkpoint(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	claim := filepath.Join(t.TempDir(), "default_data")
	for name, remove := range map[string]func(r *Remover) error{
		"with its claims": func(r *Remover) error { return r.removeClaims(t.Context(), []string{claim}) },
		"its directory":   func(r *Remover) error { return r.Dirs(t.Context()) },
		"again":           func(r *Remover) error { return r.Dirs(t.Context()) },
	} {
		var err error
		synced := treetest.Syncs(t, func() { err = remove(NewRemover(pod.New(&node.Node{}, p), nil)) })
		if err != nil || !slices.Contains(synced, p.Layout.PodsDir()) {
			t.Errorf("%s: synced %q, %v", name, synced, err)
		}
	}
}
