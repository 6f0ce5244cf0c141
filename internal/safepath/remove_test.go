package safepath

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/treetest"
)

func TestOpenSubdirFollowsNoSymlink(t *testing.T) {
	dir, host := t.TempDir(), t.TempDir()
	os.Symlink(host, dir+"/link")
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if sub, err := OpenSubdir(fd, "link"); err == nil {
		unix.Close(sub)
		t.Error("the symlink was followed")
	}
}

// TestClearGone checks that Clear succeeds if another podrun process removes a pod's empty
// directory at the same time.
func TestClearGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod")
	if err := os.Mkdir(path, 0o750); err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := Clear(t.Context(), int(dir.Fd()), ""); err != nil {
		t.Error(err)
	}
}

// TestRemoveOfADeepTree checks that the removal of a tree that is too deep for one pass leaves no
// files behind next to the tree.
func TestRemoveOfADeepTree(t *testing.T) {
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	treetest.Write(t, dir+"/other")
	for range 2 {
		if err := os.Mkdir(dir+"/top", 0o755); err != nil {
			t.Fatal(err)
		}
		treetest.MakeDeep(t, dir+"/top", 3*maxDepth)
		if err := Remove(t.Context(), fd, "top"); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v; want only the file that was not removed", entries, err)
	}
	if err := Remove(t.Context(), fd, "top"); err != nil {
		t.Errorf("remove again: %v", err)
	}
}
