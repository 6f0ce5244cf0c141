package serve

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve"
	"github.com/podrun/podrun/serve/nodeapi"
	"github.com/podrun/podrun/test/engine/rig"
)

// TestServeReloadsSources checks that a reload reads the list of directories from the settings
// again. serve must keep the objects of a directory that is no longer a source, and name them with the command
// that deletes them. It must remove the copy of a URL that is no longer a source.
func TestServeReloadsSources(t *testing.T) {
	t.Parallel()
	r := rig.New(t)
	dirs := []string{filepath.Join(r.Settings.RootDir, "a"), filepath.Join(r.Settings.RootDir, "b")}
	stale := filepath.Join(r.Layout().Serve().RemoteCopies(), "0123456789abcdef0123456789abcdef")
	for _, dir := range append(dirs, filepath.Dir(stale)) {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(stale, "{}")
	web := filepath.Join(dirs[0], "web.yaml")
	write(web, rig.ServedPod("web"))
	write(filepath.Join(dirs[0], "tick.yaml"), "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: tick, namespace: batch}\nspec: {schedule: '0 0 1 1 *', jobTemplate: {spec: {template: "+
		"{spec: {restartPolicy: Never, containers: [{name: app, image: 'registry.example/app:1'}]}}}}}\n")
	write(filepath.Join(dirs[1], "db.yaml"), rig.ServedPod("db"))
	reloads := make(chan *run.Node)
	get := rig.API(t, r, serve.Options{Dirs: dirs[:1], SettingsDirs: true, Reload: reloads})
	reload := func(sources ...string) {
		e := r.Engine()
		e.Settings.Sources = sources
		reloads <- e
	}
	rig.Eventually(t, "web runs", r.Has("web"))
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the copy of a URL that is not a source still exists: %v", err)
	}
	reload("https://host.example/a", "http://host.example/b")
	rig.Eventually(t, "a warning", func() bool { return r.Warned("source http://host.example/b") > 0 })
	reload(dirs[1])
	rig.Eventually(t, "db runs", r.Has("db"))
	// This is longer than serve waits before it treats a file as removed.
	time.Sleep(3 * time.Second)
	if !r.Has("web")() {
		t.Error("a pod was deleted because its directory is no source any more")
	}
	sources, err := serve.ReadSources(t.Context(), r.Layout())
	want := serve.SourceState{Name: dirs[0], State: "Removed", Pods: 1, Kept: []nodeapi.KeptObject{{Namespace: "default", Object: "pod/web"}, {Namespace: "batch", Object: "cronjob/tick"}},
		Why: "podrun serve does not read it, and keeps its objects: to delete them, run 'podrun delete -n default pod/web' and 'podrun delete -n batch cronjob/tick'"}
	if err != nil || len(sources) != 2 || !reflect.DeepEqual(sources[1], want) {
		t.Errorf("sources %+v, %v; want %+v", sources, err, want)
	}
	if code, text := get("/readyz"); code != http.StatusOK {
		t.Errorf("/readyz: %s", text)
	}
	if err := os.Remove(web); err != nil {
		t.Fatal(err)
	}
	reload(dirs...)
	rig.Eventually(t, "web is deleted, whose file was removed", func() bool { return !r.Has("web")() })
	if !r.Has("db")() {
		t.Error("db does not run")
	}
	if got := strings.Join(r.Reasons(), " "); strings.Count(got, "Started db") != 1 {
		t.Errorf("events %s", got)
	}
}
