package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestServeReloadsStrictSources checks that a reload applies a changed strictSources. If it is
// true, serve must refuse files that another user owns, and keep their pods unchanged. If it is
// false, serve must read the files again.
func TestServeReloadsStrictSources(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	dir := filepath.Join(r.Settings.RootDir, "manifests")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	write := func(name string, owner int) {
		t.Helper()
		path := filepath.Join(dir, name+".yaml")
		if err := os.WriteFile(path+".new", []byte(rig.ServedPod(name)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path+".new", owner, 0); err != nil {
			t.Fatal(err)
		}
		// The rename ensures that serve never reads the file with another owner.
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	const other = 1234
	write("web", other)
	reloads := make(chan *run.Node)
	rig.API(t, r, serve.Options{Dirs: []string{dir}, Reload: reloads})
	reload := func(strict bool) {
		e := r.Engine()
		e.Settings.StrictSources = strict
		reloads <- e
	}
	rig.Eventually(t, "web runs", r.Has("web"))
	web, _ := r.Runtime.Container("web")
	reload(true)
	rig.Eventually(t, "web.yaml is refused", func() bool { return r.Warned("refused by strictSources, because user 1234 owns it") > 0 })
	write("app", other)
	write("db", 0)
	rig.Eventually(t, "db runs, which root owns", r.Has("db"))
	if r.Has("app")() {
		t.Error("app runs, although another user owns its file and strictSources is true")
	}
	if now, ok := r.Runtime.Container("web"); !ok || now.ID != web.ID {
		t.Errorf("web was replaced or deleted because its file is refused: %+v", now)
	}
	reload(false)
	rig.Eventually(t, "app runs", r.Has("app"))
	if now, ok := r.Runtime.Container("web"); !ok || now.ID != web.ID {
		t.Errorf("web was replaced or deleted: %+v", now)
	}
}
