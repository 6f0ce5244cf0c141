package safepath

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/treetest"
)

// TestWritesFollowNoSymlink checks that podrun neither reads nor writes the target of a symlink
// that a container has created under a name that podrun uses (CVE-2025-9566).
func TestWritesFollowNoSymlink(t *testing.T) {
	dir, host := t.TempDir(), t.TempDir()
	treetest.Write(t, host+"/file")
	before, err := os.ReadFile(host + "/file")
	if err != nil {
		t.Fatal(err)
	}
	os.Symlink(host, dir+"/dir")
	os.Symlink(host+"/file", dir+"/link")
	os.Symlink(host+"/new", dir+"/dangling")
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, name := range []string{"link", "dangling"} {
		if err := new(Writer).WriteNew(fd, name, 0o644, nil, []byte("x")); !errors.Is(err, unix.EEXIST) {
			t.Errorf("%s: error %v, want EEXIST", name, err)
		}
	}
	for _, at := range []string{"dir", "dir/sub", "link/sub"} {
		if sub, err := MakeDirs(fd, at); err == nil {
			unix.Close(sub)
			t.Errorf("%s: created through a symlink", at)
		}
	}
	if err := MakeDir(dir+"/dir", 0o700); err == nil {
		t.Error("MakeDir accepts a symlink as a directory")
	}
	for _, path := range []string{"link", "dir/file"} {
		if HasContent(fd, path, before) {
			t.Errorf("%s: read through a symlink", path)
		}
	}
	if entries, _ := os.ReadDir(host); len(entries) != 1 {
		t.Errorf("created outside the directory: %v", entries)
	}
}

func TestWriteNewHasItsMode(t *testing.T) {
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	dir := t.TempDir()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	sub, err := MakeDirs(fd, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(sub)
	var w Writer
	modes := []uint32{0o600, 0o664, 0o400, 0o640, 0o777, 0o600}
	for i, mode := range modes {
		if err := w.WriteNew(sub, fmt.Sprint("file", i), mode, nil, []byte("text")); err != nil {
			t.Fatal(err)
		}
	}
	for i, mode := range modes {
		if info, err := os.Stat(fmt.Sprint(dir, "/a/b/file", i)); err != nil || info.Mode() != os.FileMode(mode) {
			t.Errorf("file %d: %v, %v; want %v", i, info.Mode(), err, os.FileMode(mode))
		}
	}
	for path, want := range map[string]os.FileMode{"/a": os.ModeDir | 0o755, "/a/b": os.ModeDir | 0o755} {
		if info, err := os.Stat(dir + path); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
	if !HasContent(fd, "a/b/file0", []byte("text")) || HasContent(fd, "a/b/file0", []byte("tex")) || HasContent(fd, "a/b", nil) {
		t.Error("HasContent does not compare the content of the file")
	}
}
