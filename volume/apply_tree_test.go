package volume

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/safepath"
	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/test/ring"
)

// TestD7OwnershipOfAVeryDeepTree (D7) covers a container that nests directories in a volume deeper
// than the limits on descriptors and paths. Each level has entries before and after the nested
// directory, so that podrun must resume each listing at its position.
func TestD7OwnershipOfAVeryDeepTree(t *testing.T) {
	ring.RequireRoot(t)
	dir := treetest.MemoryDir(t)
	defer treetest.Remove(t, dir)
	const levels = 2000
	treetest.MakeDeep(t, dir, levels)
	for _, at := range []string{"", "/deep", strings.Repeat("/deep", 300), strings.Repeat("/deep", 700)} {
		for _, name := range []string{"a", "file", "z"} {
			treetest.Write(t, dir+at+"/"+name)
			treetest.Write(t, dir+at+"/sub-"+name+"/file")
		}
	}
	treetest.LimitDescriptors(t, 256)
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
	err = safepath.Walk(t.Context(), root, safepath.Visitor{
		File: func(int, string) error { return nil },
		Leave: func(dir int) error {
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

func TestOwnershipEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	treetest.Write(t, dir+"/file")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := giveToGroup(ctx, dir, 4321, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}
