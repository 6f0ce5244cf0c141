package safepath

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kubernetes/pkg/volume/util/subpath"
	"k8s.io/mount-utils"

	"github.com/podrun/podrun/internal/treetest"
)

// TestOpenSubpathAsTheKubelet compares OpenSubpath with the kubelet's code. Both must open and
// create the same directory or file of the volume, or both must refuse the path.
func TestOpenSubpathAsTheKubelet(t *testing.T) {
	for name, sub := range map[string]string{
		"a file": "in/file", "a directory": "in", "a new one": "new/a/b", "in a file": "in/file/x",
		"a link": "link", "below a link": "link/file", "new below a link": "link/new/a", "a link to a file": "tofile",
		"an absolute link": "absolute", "below an absolute link": "absolute/file", "new below an absolute link": "absolute/new/a",
		"an absolute link through another one": "chained/file", "a link of the host": "hosted/file",
		"a link that leaves and returns": "around/file", "new below such a link": "around/new",
		"a link to the volume": "self", "a link to the volume, absolute": "whole/in/file", "a link to the link of the volume": "again/in/file",
		"a link to the root": "root", "below a link to the root": "root/etc", "a link of a container": "rooted/file",
		"a link to the host": "out", "below a link to the host": "out/file", "new below a link to the host": "out/new", "up": "up/passwd",
		"a neighbor of the same beginning": "neighbor/file", "a magic link": "magic/etc",
		"a dangling link": "dangling", "a dangling absolute link": "absent", "below a dangling link": "dangling/x", "a loop": "loop",
	} {
		for _, linked := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", volume behind a link: ", linked), func(t *testing.T) {
				volume, kubelet := linkedVolume(t, linked), linkedVolume(t, linked)
				want, werr := openAsTheKubelet(t, kubelet, sub)
				f, err := OpenSubpath(t.Context(), volume, sub)
				got := ""
				if err == nil {
					defer f.Close()
					got = insideOf(t, volume, realPath(t, f))
				}
				if got != want || (err == nil) != (werr == nil) {
					t.Errorf("%s leads to %q, %v; with the kubelet to %q, %v", sub, got, err, want, werr)
				}
				for _, v := range []string{volume, kubelet} {
					if entries, _ := os.ReadDir(filepath.Join(filepath.Dir(v), "host")); len(entries) != 1 {
						t.Errorf("created outside the volume: %v", entries)
					}
				}
			})
		}
	}
}

// linkedVolume creates a volume with links of all kinds. It also creates a sibling directory named
// host, which represents a directory of the host outside the volume.
func linkedVolume(t *testing.T, linked bool) string {
	t.Helper()
	dir := t.TempDir()
	volume := filepath.Join(dir, "volume")
	treetest.Write(t, filepath.Join(dir, "host", "file"))
	treetest.Write(t, filepath.Join(dir, "volume2", "file"))
	treetest.Write(t, filepath.Join(volume, "in", "file"))
	path := volume
	if linked {
		path = filepath.Join(dir, "linked")
	}
	for link, target := range map[string]string{
		filepath.Join(dir, "linked"): volume, filepath.Join(dir, "in"): filepath.Join(volume, "in"),
		volume + "/link": "in", volume + "/tofile": "in/file", volume + "/absolute": path + "/in", volume + "/chained": path + "/absolute",
		volume + "/hosted": filepath.Join(dir, "in"), volume + "/around": "../volume/in", volume + "/self": ".", volume + "/whole": path,
		volume + "/again": filepath.Join(dir, "linked"), volume + "/root": "/", volume + "/rooted": "/in", volume + "/out": filepath.Join(dir, "host"),
		volume + "/up": "../../../../../../../../etc", volume + "/neighbor": filepath.Join(dir, "volume2"), volume + "/magic": "/proc/self/root",
		volume + "/dangling": "none", volume + "/absent": path + "/none", volume + "/loop": "loop",
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// insideOf returns a path relative to its volume.
func insideOf(t *testing.T, volume, path string) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(volume)
	if err != nil {
		t.Fatal(err)
	}
	if path != base && !strings.HasPrefix(path, base+"/") {
		t.Errorf("%s is outside of %s", path, base)
	}
	return "." + strings.TrimPrefix(path, base)
}

// openAsTheKubelet does the same as makeMounts (pkg/kubelet/kubelet_pods.go) for a subPath.
func openAsTheKubelet(t *testing.T, volume, sub string) (string, error) {
	t.Helper()
	mounter := &noMounter{FakeMounter: mount.NewFakeMounter(nil)}
	paths := subpath.New(mounter)
	path := filepath.Join(volume, sub)
	if exists, err := mount.PathExists(path); err == nil && !exists {
		if err := paths.SafeMakeDir(sub, volume, 0o755); err != nil {
			return "", err
		}
	}
	_, _, err := paths.PrepareSafeSubpath(subpath.Subpath{VolumeName: "v", ContainerName: "c", Path: path, VolumePath: volume, PodDir: t.TempDir()})
	if err != nil {
		return "", err
	}
	return insideOf(t, volume, mounter.source), nil
}

// noMounter is a mounter that only records the requested mounts.
type noMounter struct {
	*mount.FakeMounter
	source string
}

// MountSensitiveWithoutSystemdWithMountFlags is the call by which the kubelet binds a subPath.
func (m *noMounter) MountSensitiveWithoutSystemdWithMountFlags(source, _, _ string, _, _, _ []string) (err error) {
	m.source, err = os.Readlink(source)
	return err
}
