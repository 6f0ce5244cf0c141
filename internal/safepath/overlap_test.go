package safepath

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOverlap covers paths that are, contain or are in a directory. Mounts are covered by volume.TestSwappedHostPath,
// which requires root.
func TestOverlap(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"private/pods", "private-data", "srv"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../private/pods", base+"/srv/link"); err != nil {
		t.Fatal(err)
	}
	private := base + "/private"
	for path, want := range map[string]string{
		"/": private, "/proc/self/root": private, base: private, private: private, private + "/pods": private, base + "/srv/link": private, base + "/srv/../private": private,
		base + "/srv": "", base + "/private-data": "", os.DevNull: "",
	} {
		file, err := OpenPath(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Overlap(t.Context(), int(file.Fd()), []string{base + "/missing", private})
		if got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
		file.Close()
	}
}
