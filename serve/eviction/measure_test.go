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
	"github.com/podrun/podrun/internal/treetest"
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
	m := Measure(dir)
	defer m.Close()
	m.most = 10
	if err := m.Continue(t.Context()); !errors.Is(err, ErrPrevented) || m.Used().Inodes != 11 {
		t.Errorf("%+v, %v; want it to stop after 11 names", m.Used(), err)
	}
}

// during is a context that calls act at each step of a walk.
type during struct {
	context.Context
	act func()
}

func (d during) Err() error { d.act(); return d.Context.Err() }

// TestMeasurementThatContainersPrevent covers containers that change a directory at each step of the walk. In
// an earlier version, the sum of a walk that had ended early counted as the usage.
func TestMeasurementThatContainersPrevent(t *testing.T) {
	const most = 1000
	for _, tt := range []struct {
		name string
		// begin prepares a directory, and returns what happens at each step.
		begin func(t *testing.T, dir string) func()
		// names are those that the walk has visited, inodes at least those that it has found.
		names, inodes int64
		moved         bool
	}{
		{"directories that are nested ahead of the walk", func(t *testing.T, dir string) func() {
			deepest := open(t, dir)
			return func() {
				_ = unix.Mkdirat(deepest, "deep", 0o700)
				if next, err := unix.Openat(deepest, "deep", unix.O_RDONLY|unix.O_DIRECTORY, 0); err == nil {
					unix.Close(deepest)
					deepest = next
				}
			}
		}, most + 1, most + 1, false},
		{"links to one file that move ahead of the walk", func(t *testing.T, dir string) func() {
			deepest := open(t, dir)
			treetest.Write(t, dir+"/first")
			return func() {
				for i := range 10 {
					_ = unix.Linkat(unix.AT_FDCWD, dir+"/first", deepest, fmt.Sprint("link", i), 0)
				}
				_ = unix.Mkdirat(deepest, "deep", 0o700)
				if next, err := unix.Openat(deepest, "deep", unix.O_RDONLY|unix.O_DIRECTORY, 0); err == nil {
					unix.Close(deepest)
					deepest = next
				}
			}
		}, most + 1, 2, false},
		{"deep directories that move", func(t *testing.T, dir string) func() {
			treetest.MakeDeep(t, dir, 300)
			steps, elsewhere := 0, treetest.MemoryDir(t)
			return func() {
				if steps++; steps == 290 {
					if err := os.Rename(dir+"/deep/deep", elsewhere+"/deep"); err != nil {
						t.Fatal(err)
					}
				}
			}
		}, 301, 301, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := treetest.MemoryDir(t)
			defer treetest.Remove(t, dir)
			m := Measure(dir)
			defer m.Close()
			m.most = most
			err := m.Continue(during{t.Context(), tt.begin(t, dir)})
			if !errors.Is(err, ErrPrevented) || errors.Is(err, safepath.ErrMoved) != tt.moved || m.names != tt.names || m.Used().Inodes < tt.inodes {
				t.Errorf("%d names, %+v, %v; want %d names", m.names, m.Used(), err, tt.names)
			}
		})
	}
}

// open opens a directory.
func open(t *testing.T, dir string) int {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}
