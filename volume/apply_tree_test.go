package volume

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
)

// memoryDir makes a directory that needs no disk, where there is such a place.
func memoryDir(t *testing.T) string {
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

// removeTree removes what testing's own removal can't: a tree that is nested too
// deep for a path.
func removeTree(t *testing.T, dir string) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	d := deletion{ctx: context.Background(), top: fd}
	if err := d.clear(fd, 0, ""); err != nil {
		t.Error(err)
	}
}

// D7: a volume nested deeper than descriptors or a path reach. Each level has
// entries before and after the one that leads down, so that each listing must go
// on where it was.
func TestD7OwnershipOfAVeryDeepTree(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("chown needs root")
	}
	dir := memoryDir(t)
	defer removeTree(t, dir)
	const levels = 2000
	makeDeep(t, dir, levels)
	for _, at := range []string{"", "/deep", strings.Repeat("/deep", 300), strings.Repeat("/deep", 700)} {
		for _, name := range []string{"a", "file", "z"} {
			mustWrite(t, dir+at+"/"+name)
			mustWrite(t, dir+at+"/sub-"+name+"/file")
		}
	}
	limitDescriptors(t, 256)
	if err := giveToGroup(t.Context(), dir, 4321, ""); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"", "/deep", strings.Repeat("/deep", 300), strings.Repeat("/deep", 700)} {
		for _, name := range []string{"", "/a", "/file", "/z", "/sub-a/file", "/sub-z", "/sub-z/file"} {
			if gid, _ := groupAndMode(t, dir+at+name); gid != 4321 {
				t.Errorf("%d levels down, %q: group %d", strings.Count(at, "deep"), name, gid)
			}
		}
	}
	visited := 0
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	err = walkTree(t.Context(), root, treeVisitor{
		file: func(int, string) error { return nil },
		left: func(dir int) error {
			visited++
			if !isGroups(dir, 4321) {
				return errors.New("a directory was left out")
			}
			return nil
		},
	})
	if want := levels + 1 + 4*3; err != nil || visited != want {
		t.Errorf("%v, %d directories visited, want %d", err, visited, want)
	}
}

// A walk does not follow a directory that is moved out of the way it came down.
func TestWalkOfADirectoryThatIsMoved(t *testing.T) {
	dir := t.TempDir()
	defer removeTree(t, dir)
	makeDeep(t, dir, 3*openLevels)
	elsewhere := t.TempDir()
	defer removeTree(t, elsewhere)
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	moved := false
	err = walkTree(t.Context(), root, treeVisitor{
		file: func(int, string) error { return nil },
		left: func(int) error {
			if !moved {
				moved = true
				return os.Rename(dir+strings.Repeat("/deep", openLevels), elsewhere+"/deep")
			}
			return nil
		},
	})
	if !errors.Is(err, errMoved) {
		t.Errorf("error %v, want %v", err, errMoved)
	}
}

func TestOwnershipEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	for i := range 10 {
		mustWrite(t, fmt.Sprintf("%s/%d", dir, i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	visited := 0
	err = walkTree(ctx, root, treeVisitor{
		file: func(int, string) error { visited++; cancel(); return nil },
		left: func(int) error { t.Error("the directory counts as done"); return nil },
	})
	if !errors.Is(err, context.Canceled) || visited != 1 {
		t.Errorf("%v after %d files; want canceled after 1", err, visited)
	}
	if err := giveToGroup(ctx, dir, 4321, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}

// D10: 600,000 files took 338 MB, whatever was done with them.
func TestD10ListingTakesAFixedAmountOfMemory(t *testing.T) {
	dir := memoryDir(t)
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
	names, err := openListing(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer names.close()
	seen, most := 0, uint64(0)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for {
		_, err := names.name()
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
	removeTree(t, list)
	if left, _ := os.ReadDir(list); len(left) != 0 {
		t.Errorf("%d files are left", len(left))
	}
}

func TestListing(t *testing.T) {
	dir := t.TempDir()
	want := []string{"a", "b c", strings.Repeat("x", 255), "ü\n"}
	for _, name := range want {
		mustWrite(t, dir+"/"+name)
	}
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	names, err := openListing(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer names.close()
	var got []string
	for {
		name, err := names.name()
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
