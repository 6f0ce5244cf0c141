// Package treetest creates, binds and removes file trees for tests of the engine, volume and
// internal/safepath. Some are deeper than the maximum length of a path. It also records which
// files a function syncs (Syncs).
package treetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Content is the content of files that Write writes.
const Content = "precious"

// MemoryDir returns a new directory in /dev/shm, so that a test with many files does not wait for a
// disk. If /dev/shm does not exist, it returns t.TempDir(). The directory is removed when the test
// ends.
func MemoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "podrun-ut-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Remove removes a tree that may be nested too deeply for os.RemoveAll, which opens a file per
// level.
func Remove(t testing.TB, dir string) {
	t.Helper()
	if out, err := exec.Command("rm", "-rf", dir).CombinedOutput(); err != nil {
		t.Errorf("%v: %.200s", err, out)
	}
}

// Write writes a file with Content and creates its parent directories.
func Write(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(Content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Bind bind-mounts a directory or a file at another path.
func Bind(t testing.TB, from, to string) {
	t.Helper()
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
}

// MakeDeep creates the given number of nested directories below a directory. Each of them is named
// "deep".
func MakeDeep(t testing.TB, at string, levels int) {
	t.Helper()
	fd, err := unix.Open(at, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		if err := unix.Mkdirat(fd, "deep", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "deep", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
}

// LimitDescriptors sets the limit on the process's open files (RLIMIT_NOFILE) to most, until
// the test ends.
func LimitDescriptors(t testing.TB, most uint64) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = most
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) })
}
