package volume

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/test/ring"
)

func groupAndMode(t *testing.T, path string) (uint32, os.FileMode) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*unixStat).Gid, info.Mode()
}

func TestGiveToGroup(t *testing.T) {
	ring.RequireRoot(t)
	dir, host := t.TempDir(), t.TempDir()
	treetest.Write(t, host+"/file")
	treetest.Write(t, dir+"/sub/file")
	os.Symlink(host+"/file", dir+"/link")
	os.Symlink(host, dir+"/dirlink")
	if err := giveToGroup(t.Context(), dir, 4321, ""); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{
		".":        os.ModeDir | os.ModeSetgid | 0o775,
		"sub":      os.ModeDir | os.ModeSetgid | 0o775,
		"sub/file": 0o660,
		"link":     os.ModeSymlink | 0o777,
		"dirlink":  os.ModeSymlink | 0o777,
	} {
		gid, mode := groupAndMode(t, filepath.Join(dir, path))
		if gid != 4321 || mode != want {
			t.Errorf("%s: group %d, mode %v; want 4321, %v", path, gid, mode, want)
		}
	}
	for _, path := range []string{host, host + "/file"} {
		if gid, mode := groupAndMode(t, path); gid != 0 || mode&os.ModeSetgid != 0 {
			t.Errorf("%s behind a symlink: group %d, mode %v; it must not change", path, gid, mode)
		}
	}
}

func TestFSGroupChangePolicy(t *testing.T) {
	ring.RequireRoot(t)
	for _, test := range []struct {
		policy corev1.PodFSGroupChangePolicy
		// the resulting group of a file with a wrong group, in a volume whose root directory has the right
		// group
		want uint32
	}{{corev1.FSGroupChangeAlways, 4321}, {"", 4321}, {corev1.FSGroupChangeOnRootMismatch, 0}} {
		dir := t.TempDir()
		if err := giveToGroup(t.Context(), dir, 4321, test.policy); err != nil {
			t.Fatal(err)
		}
		treetest.Write(t, dir+"/file")
		os.Chown(dir+"/file", 0, 0)
		if err := giveToGroup(t.Context(), dir, 4321, test.policy); err != nil {
			t.Fatal(err)
		}
		if gid, _ := groupAndMode(t, dir+"/file"); gid != test.want {
			t.Errorf("policy %q: group %d, want %d", test.policy, gid, test.want)
		}
	}
}
