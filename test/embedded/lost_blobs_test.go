package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// TestLostBlobs loses each blob of the sandbox image and of an image in an archive, as a power failure
// does: the file is missing or empty, and containerd's database still lists it.
func TestLostBlobs(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("apply", "pod.yaml")
	r.must("delete", "web")
	dir := filepath.Join(r.layout.Containerd(), "io.containerd.content.v1.content", "blobs", "sha256")
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 6 {
		t.Fatalf("%d blobs, want 3 of each image; %v", len(entries), err)
	}
	for i, e := range entries {
		path := filepath.Join(dir, e.Name())
		before, err := os.ReadFile(path)
		if err == nil {
			err = os.Remove(path)
		}
		if err == nil && i%2 == 1 {
			err = os.WriteFile(path, nil, 0o444)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out := r.must("doctor"); !strings.Contains(out, "lost the blob sha256:"+e.Name()) {
			t.Errorf("doctor does not report %s:\n%s", e.Name(), out)
		}
		r.must("apply", "pod.yaml")
		r.must("delete", "web")
		r.must("runtime", "up") // also loads layers that are already unpacked
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("blob %s was not restored: %v", e.Name(), err)
		}
	}
	r.must("doctor")
}
