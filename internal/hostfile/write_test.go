package hostfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteReplacesAsAWhole(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	must(t, os.WriteFile(target, []byte("intact"), 0o600))
	path := filepath.Join(dir, "file")
	must(t, os.Symlink(target, path))
	for _, text := range []string{"one", "two"} {
		must(t, Write(path, []byte(text), 0o640))
		data, err := os.ReadFile(path)
		if err != nil || string(data) != text {
			t.Errorf("%q, %v; want %q", data, err, text)
		}
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "intact" {
		t.Errorf("the link's target holds %q, %v", data, err)
	}
	if info, _ := os.Lstat(path); info.Mode() != 0o640 {
		t.Errorf("mode %v, want a file of 0640", info.Mode())
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestWriteLeavesNothingBehindWhenItFails(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(dir, "full", "inner"), 0o700))
	if err := Write(filepath.Join(dir, "full"), nil, 0o600); err == nil {
		t.Error("no error for a directory that is not empty")
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil, 0o600); err == nil {
		t.Error("no error for a directory that does not exist")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}
