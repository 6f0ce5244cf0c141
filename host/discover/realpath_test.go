package discover

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

func TestRealPaths(t *testing.T) {
	m := machine{ctx: t.Context(), root: t.TempDir()}
	for _, dir := range []string{"run/podrun", "srv"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"srv/run": "../run", "srv/loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(m.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	got := m.realPaths([]string{"/run/podrun", "/srv/run", "/srv/run/podrun/", "/srv/run/none/none", "/none", "/srv/loop", "relative", "/"})
	want := map[string]string{"/srv/run": "/run", "/srv/run/podrun": "/run/podrun", "/srv/run/none/none": "/run/none/none"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
