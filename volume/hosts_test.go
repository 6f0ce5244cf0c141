package volume

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/identity"
)

func TestChangeHosts(t *testing.T) {
	layout := identity.Layout{RootDir: t.TempDir()}
	path := layout.EtcHosts("u")
	if err := ChangeHosts(layout, "u", strings.ToUpper); err != nil {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteHosts(layout, "u", []byte("long content")); err != nil {
		t.Fatal(err)
	}
	mounted, err := os.Open(path) // the file remains open, as in a container that mounts it
	if err != nil {
		t.Fatal(err)
	}
	defer mounted.Close()
	for _, want := range []string{"long content and more", "short", "short"} {
		if err := ChangeHosts(layout, "u", func(string) string { return want }); err != nil {
			t.Error(err)
		}
		buf := make([]byte, 100)
		if n, _ := mounted.ReadAt(buf, 0); string(buf[:n]) != want {
			t.Errorf("the container reads %q, want %q", buf[:n], want)
		}
	}
	if err := ReclaimFiles(layout, "u", 0); err != nil {
		t.Fatal(err)
	}
	if err := ChangeHosts(layout, "u", func(string) string { return "x" }); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != 0 {
		t.Errorf("an emptied file is written again: %v, %v", info, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "target")
	if err := os.WriteFile(target, []byte("host"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	_ = ChangeHosts(layout, "u", strings.ToUpper)
	if data, _ := os.ReadFile(target); string(data) != "host" {
		t.Errorf("it follows a symbolic link: %q", data)
	}
}
