package discover

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestRealPaths(t *testing.T) {
	m := machine{ctx: t.Context(), root: t.TempDir()}
	for _, dir := range []string{"run/podrun", "srv"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"srv/run": "../run", "srv/loop": "loop", "srv/dangling": "/run/none"} {
		if err := os.Symlink(to, filepath.Join(m.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	got, unresolved := m.realPaths([]string{"/run/podrun", "/srv/run", "/srv/run/podrun/", "/srv/run/none/none", "/none", "/srv/loop", "/srv/loop/x", "/srv/dangling", "/srv/dangling/x", "relative", "/"})
	want := map[string]string{"/srv/run": "/run", "/srv/run/podrun": "/run/podrun", "/srv/run/none/none": "/run/none/none"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if names := slices.Sorted(maps.Keys(unresolved)); !slices.Equal(names, []string{"/srv/dangling", "/srv/dangling/x", "/srv/loop", "/srv/loop/x"}) {
		t.Errorf("unresolved: %v", unresolved)
	}
}

// TestRootDir checks that UIDs depend on the directory, not on its spelling. The default
// directory must not affect them.
func TestRootDir(t *testing.T) {
	m := machine{ctx: t.Context(), root: t.TempDir()}
	for _, dir := range []string{"var/lib/podrun", "data/jobs"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"data/default": "../var/lib/podrun", "data/link": "jobs"} {
		if err := os.Symlink(to, filepath.Join(m.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/var/lib/podrun": "", "/var/lib/podrun/": "", "/var/lib//x/../podrun": "", "/data/default": "",
		"/data/jobs": "/data/jobs", "/data/jobs/": "/data/jobs", "/data/link": "/data/jobs",
		"/data/link/1": "/data/jobs/1", "/data/none": "/data/none", "/": "/",
		"relative": filepath.Join(here, "relative"), "./relative/": filepath.Join(here, "relative"),
	} {
		if got := m.rootDir(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if err := os.Rename(filepath.Join(m.root, "var/lib/podrun"), filepath.Join(m.root, "data/moved")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/data/moved", filepath.Join(m.root, "var/lib/podrun")); err != nil {
		t.Fatal(err)
	}
	if got := m.rootDir("/var/lib/podrun"); got != "" {
		t.Errorf("the default directory, now a symlink: %q", got)
	}
}
