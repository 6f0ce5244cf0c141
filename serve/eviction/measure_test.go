package eviction

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/safepath"
	"github.com/podrun/podrun/test/ring"
)

func TestReadDisk(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, sub := range []string{"a/b", "m"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	empty, err := ReadDisk(t.Context(), dir)
	if err != nil || empty.Inodes != 4 {
		t.Fatalf("%+v, %v; want 4 inodes", empty, err)
	}
	write("a/big", 1<<20)
	write("a/b/small", 4096)
	if err := os.Link(filepath.Join(dir, "a/big"), filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	// Neither the target of a symlink nor the content of a mount belongs to the directory.
	host := t.TempDir()
	if err := os.WriteFile(filepath.Join(host, "huge"), make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(host, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if ring.Lacks(t) == "" {
		if err := unix.Mount(host, filepath.Join(dir, "m"), "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount(filepath.Join(dir, "m"), unix.MNT_DETACH)
	}
	got, err := ReadDisk(t.Context(), dir)
	grown := got.Bytes - empty.Bytes
	if err != nil || grown < 1<<20 || grown > 1<<20+64<<10 {
		t.Errorf("grown by %d bytes, %v; want about 1 MiB", grown, err)
	}
	// The count must not include the inode of the mounted directory.
	if n := got.Inodes - empty.Inodes; n < 2 || n > 3 {
		t.Errorf("grown by %d inodes, want 2 files and a link", n)
	}
}

func TestReadDiskOfNothing(t *testing.T) {
	if got, err := ReadDisk(t.Context(), filepath.Join(t.TempDir(), "none")); got != (Disk{}) || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadDisk(ctx, t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the context's error", err)
	}
}

// TestReadDiskIsBounded checks that ReadDisk limits the count, because a container can create any
// number of files.
func TestReadDiskIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := counter{most: 10, linked: map[uint64]bool{}}
	err = safepath.Walk(t.Context(), int(f.Fd()), safepath.Visitor{File: c.file, Leave: c.leave})
	if !errors.Is(err, errEnough) || c.sum.Inodes != 11 {
		t.Errorf("%+v, %v; want it to stop after 11", c.sum, err)
	}
}
