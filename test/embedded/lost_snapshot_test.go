package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// TestDirectoryOfALostSnapshot covers a containerd that is killed between the rename of a new snapshot's directory and
// the commit of its record. The crash sweep of test/rootless found it: the next snapshot gets the same number, so each
// new sandbox failed with "file exists".
func TestDirectoryOfALostSnapshot(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("apply", "pod.yaml")
	snapshots := filepath.Join(r.layout.Containerd(), "io.containerd.snapshotter.v1.overlayfs", "snapshots")
	entries, err := os.ReadDir(snapshots)
	if err != nil {
		t.Skip(err) // overlayfs does not work here
	}
	last := 0
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			last = max(last, n)
		}
	}
	r.kill()
	lost := filepath.Join(snapshots, strconv.Itoa(last+1))
	if err := os.MkdirAll(filepath.Join(lost, "fs"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.must("get") // starts containerd
	if _, err := os.Lstat(filepath.Join(lost, "fs")); err == nil {
		t.Errorf("%s is left", lost)
	}
	r.must("delete", "web")
	r.must("apply", "pod.yaml")
	r.answers()
}
