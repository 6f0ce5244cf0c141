package safepath

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/treetest"
	"github.com/podrun/podrun/test/ring"
)

// TestUnmountFollowsNoSymlink checks that podrun unmounts nothing of the host if a container
// replaces a parent directory of a mount point with a symlink after podrun has listed the mounts.
func TestUnmountFollowsNoSymlink(t *testing.T) {
	ring.RequireRoot(t)
	base, host := t.TempDir(), t.TempDir()
	os.Mkdir(host+"/m", 0o755)
	treetest.Bind(t, host, host+"/m")
	defer unix.Unmount(host+"/m", 0)
	os.Symlink(host, base+"/dir")
	os.Symlink(host+"/m", base+"/m")
	root, err := unix.Open(base, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(root)
	for _, point := range []string{base + "/dir/m", base + "/m"} {
		if err := unmount(t.Context(), root, base, point); err == nil {
			t.Errorf("%s: unmounted through a symlink", point)
		}
	}
	mounts, err := Mounts()
	if n := len(below(mounts, host)); err != nil || n != 1 {
		t.Errorf("%d mounts of the host are left, %v; want 1", n, err)
	}
}

// TestParseMounts checks mountinfo lines with white space in paths: the kernel escapes spaces,
// tabs, newlines and backslashes, but no other white space of Unicode. If the library rejects a
// line, parseMounts must still return the mounts of the other lines.
func TestParseMounts(t *testing.T) {
	good := []string{
		`22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw`,
		`40 22 0:30 / /pods/u/v\040one\134\011\012 rw,relatime shared:5 master:3 - tmpfs my\040fs rw,size=4k`,
		`41 40 0:31 / /pods/u rw - tmpfs tmpfs rw`,
		`42 22 0:32 / /pods/u2/v rw - tmpfs tmpfs rw`,
		"43 22 0:33 / /pods/u/\u00a0\u2003\v\f\rx rw - tmpfs  rw",
	}
	hostile := []string{
		`garbage`,
		`x y - a b`,
		``,
		` - `,
		`44 22 0:34 / /pods/u/short\04 rw - tmpfs tmpfs rw`,
		`45 22 0:35 / /pods/u/bad\9zz rw - tmpfs tmpfs rw`,
		`46 22 no / /pods/u/device rw - tmpfs tmpfs rw`,
		`47 22 0:37 / /pods/u/long rw - tmpfs tmpfs ` + strings.Repeat("x", 1<<17),
		`48 22 0:38 / /pods/u/end rw - tmpfs`,
	}
	want := []*mountinfo.Info{
		{ID: 40, Parent: 22, Minor: 30, Root: "/", Mountpoint: "/pods/u/v one\\\t\n", Options: "rw,relatime",
			Optional: "shared:5 master:3", FSType: "tmpfs", Source: "my fs", VFSOptions: "rw,size=4k"},
		{ID: 41, Parent: 40, Minor: 31, Root: "/", Mountpoint: "/pods/u", Options: "rw", FSType: "tmpfs", Source: "tmpfs", VFSOptions: "rw"},
		{ID: 43, Parent: 22, Minor: 33, Root: "/", Mountpoint: "/pods/u/\u00a0\u2003\v\f\rx", Options: "rw", FSType: "tmpfs", VFSOptions: "rw"},
	}
	for name, lines := range map[string][]string{"good": good, "hostile": slices.Concat(hostile, good, hostile)} {
		got := below(parseMounts(strings.Join(lines, "\n")+"\n"), "/pods/u")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s lines: %s", name, diff)
		}
	}
	// No path can contain a NUL byte. parseMounts must return the mount, but the mount must not
	// match any directory.
	nul := parseMounts(`49 22 0:39 / /pods\000/u rw - tmpfs tmpfs rw`)
	if len(nul) != 1 || nul[0].Mountpoint != "/pods\x00/u" || len(below(nul, "/pods")) != 0 {
		t.Errorf("NUL: %v", nul)
	}
}

// TestAwaitEndsWithTheContext checks that a file system that does not respond neither blocks an
// interrupted command nor makes it hold the command's lock.
func TestAwaitEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	release := make(chan struct{})
	defer close(release)
	_, err := Await(ctx, "/mnt/dead", func() (int, error) { <-release; return 0, nil })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "/mnt/dead") {
		t.Errorf("error %v; want canceled and the path", err)
	}
	if got, err := Await(ctx, "/mnt", func() (int, error) { return 7, nil }); got != 7 || err != nil {
		t.Errorf("%d, %v: a response that has arrived must count", got, err)
	}
}
