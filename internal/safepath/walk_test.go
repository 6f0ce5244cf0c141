package safepath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/treetest"
)

// TestWalkOfADirectoryThatIsMoved checks that a walk does not continue in a directory that was
// moved out of the tree.
func TestWalkOfADirectoryThatIsMoved(t *testing.T) {
	dir := t.TempDir()
	defer treetest.Remove(t, dir)
	treetest.MakeDeep(t, dir, 3*openLevels)
	elsewhere := t.TempDir()
	defer treetest.Remove(t, elsewhere)
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	moved := false
	err = Walk(t.Context(), root, Visitor{
		File: func(int, string) error { return nil },
		Leave: func(int) error {
			if !moved {
				moved = true
				return os.Rename(dir+strings.Repeat("/deep", openLevels), elsewhere+"/deep")
			}
			return nil
		},
	})
	if !errors.Is(err, ErrMoved) {
		t.Errorf("error %v, want %v", err, ErrMoved)
	}
}

// openRoot opens a directory until the test ends.
func openRoot(t *testing.T, dir string) int {
	t.Helper()
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(root) })
	return root
}

// TestWalkDoesNotDependOnParents checks that a process cannot end the walk of an ordinary tree by moving
// or removing its directories: a container did this so that podrun measured only a part of its volume.
func TestWalkDoesNotDependOnParents(t *testing.T) {
	const depth = 90
	for _, how := range []string{"moved out of the tree", "moved inside the tree"} {
		dir, elsewhere := t.TempDir(), t.TempDir()
		for at := range depth + 1 {
			sub := dir + strings.Repeat("/deep", at)
			if err := os.MkdirAll(sub, 0o755); err != nil {
				t.Fatal(err)
			}
			treetest.Write(t, sub+"/a")
			treetest.Write(t, sub+"/z")
		}
		to := elsewhere + "/deep"
		if how == "moved inside the tree" {
			to = dir + "/0"
		}
		files, moved := 0, false
		err := Walk(t.Context(), openRoot(t, dir), Visitor{
			File: func(int, string) error { files++; return nil },
			Leave: func(int) error {
				if moved {
					return nil
				}
				moved = true
				return os.Rename(dir+strings.Repeat("/deep", depth/9), to)
			},
		})
		if want := 2 * (depth + 1); err != nil || files < want {
			t.Errorf("%s: %d files, %v; want %d", how, files, err, want)
		}
	}
}

// TestWalkContinues interrupts a walk at each of its steps.
func TestWalkContinues(t *testing.T) {
	dir := t.TempDir()
	treetest.MakeDeep(t, dir, 2*openLevels)
	defer treetest.Remove(t, dir)
	for _, at := range []int{0, 1, openLevels / 2} {
		for i := range 20 {
			treetest.Write(t, fmt.Sprintf("%s/%d", dir+strings.Repeat("/deep", at), i))
		}
	}
	var ctx context.Context
	var cancel context.CancelFunc
	seen := map[string]int{}
	files, directories := 0, 0
	w, err := NewWalker(openRoot(t, dir), Visitor{
		File:  func(dir int, name string) error { files++; seen[nameOf(dir, name)]++; cancel(); return nil },
		Leave: func(int) error { directories++; cancel(); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for parts := 0; ; parts++ {
		ctx, cancel = context.WithCancel(t.Context())
		err := w.Continue(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || parts > 1000 {
			t.Fatal(err)
		}
	}
	cancel()
	if files != 60 || len(seen) != 60 || directories != 2*openLevels+1 {
		t.Errorf("%d files, %d of them different, %d directories", files, len(seen), directories)
	}
}

// TestD10ListingTakesAFixedAmountOfMemory (D10) checks that the use of memory does not depend on
// the number of files. In an earlier version, every operation on a directory with 600,000 files
// used 338 MB.
func TestD10ListingTakesAFixedAmountOfMemory(t *testing.T) {
	dir := treetest.MemoryDir(t)
	const files = 8000
	name := func(i int) string { return fmt.Sprintf("%0250d", i) }
	list := filepath.Join(dir, "list")
	if err := os.Mkdir(list, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range files {
		if err := os.Symlink("x", filepath.Join(list, name(i))); err != nil {
			t.Fatal(err)
		}
	}
	root, err := unix.Open(list, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	names, err := List(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	seen, most := 0, uint64(0)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for {
		_, err := names.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen%2000 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
		}
	}
	if seen != files || most > 1<<20 {
		t.Errorf("%d names with %d bytes in use; want %d with less than 1 MiB", seen, most, files)
	}
	if err := Clear(t.Context(), root, ""); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(list); len(left) != 0 {
		t.Errorf("%d files are left", len(left))
	}
}

func TestListing(t *testing.T) {
	dir := t.TempDir()
	want := []string{"a", "b c", strings.Repeat("x", 255), "ü\n"}
	for _, name := range want {
		treetest.Write(t, dir+"/"+name)
	}
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	names, err := List(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	var got []string
	for {
		name, err := names.Next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		got = append(got, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWalkEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		treetest.Write(t, fmt.Sprintf("%s/%d", dir, i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	visited := 0
	err = Walk(ctx, root, Visitor{
		File:  func(int, string) error { visited++; cancel(); return nil },
		Leave: func(int) error { t.Error("the directory counts as done"); return nil },
	})
	if !errors.Is(err, context.Canceled) || visited != 1 {
		t.Errorf("%v after %d files; want canceled after 1", err, visited)
	}
}
