package hostfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/treetest"
)

// TestMakeDirs checks that MakeDirs sets exactly the given mode, also of the parents, although
// podrun.service has a strict umask.
func TestMakeDirs(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("real", filepath.Join(dir, "link")), os.Symlink("nowhere", filepath.Join(dir, "dangling")),
		os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{"a/b/c": nil, "a/b": nil, "link/x": nil, "real": nil, "file": unix.ENOTDIR, "file/x": unix.ENOTDIR, "dangling/x": unix.ENOTDIR} {
		if err := MakeDirs(filepath.Join(dir, path), 0o755); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	for path, mode := range map[string]fs.FileMode{"a": 0o755, "a/b": 0o755, "a/b/c": 0o755, "real/x": 0o755, "real": 0o700} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode() != fs.ModeDir|mode {
			t.Errorf("%s: %v, %v; want %v", path, info, err, mode)
		}
	}
}

func TestMakeFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for range 2 {
		if err := MakeFile(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info, err)
	}
	if err := errors.Join(os.Chmod(path, 0o600), MakeFile(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("a file that exists: %v, %v", info, err)
	}
	if err := MakeFile(dir, 0o644); err != nil {
		// An error is permitted, because callers check the type of the file first.
		t.Logf("a directory: %v", err)
	}
	if err := MakeFile(filepath.Join(dir, "none", "f"), 0o644); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its directory: %v", err)
	}
}

func TestMakeDirsDurable(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		path string
		want []string // paths that must be synced
		err  error
	}{
		{"a/b", []string{filepath.Join(root, "a"), root}, nil},
		{"a/b", nil, nil},
		{"a/c", []string{filepath.Join(root, "a")}, nil},
		{"file/x", nil, unix.ENOTDIR},
	} {
		var err error
		synced := treetest.Syncs(t, func() { err = MakeDirsDurable(filepath.Join(root, tc.path), 0o750) })
		if !errors.Is(err, tc.err) || !slices.Equal(synced, tc.want) {
			t.Errorf("%s: synced %q, want %q; %v, want %v", tc.path, synced, tc.want, err, tc.err)
		}
		if tc.err == nil && !IsDir(filepath.Join(root, tc.path)) {
			t.Errorf("%s was not created", tc.path)
		}
	}
}
