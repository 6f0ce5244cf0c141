package embedded

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// maxBundle is the size limit of podrun-bundle, in MB. The limit of podrun is in test/bench.
const maxBundle = 68

// TestContents checks the size and the bill of materials of podrun-bundle. The bill of
// materials must list podrun and the programs of the embedded runtime in one document. A build
// without make has no bill of materials.
func TestContents(t *testing.T) {
	ring.Require(t, 2)
	if bundle == "" {
		t.Skip("PODRUN_TEST_BUNDLE is not set: run make bundle")
	}
	info, err := os.Stat(bundle)
	if err != nil {
		t.Fatal(err)
	}
	if mb := float64(info.Size()) / 1e6; mb > maxBundle {
		t.Errorf("%s has %.1f MB, more than %d", bundle, mb, maxBundle)
	}
	out, err := exec.Command(bundle, "version", "--sbom").Output()
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		SPDXVersion string
		Packages    []struct{ Name string }
	}
	if err := json.Unmarshal(out, &document); err != nil || document.SPDXVersion != "SPDX-2.3" {
		t.Errorf("version %q, %v", document.SPDXVersion, err)
	}
	var names []string
	for _, p := range document.Packages {
		names = append(names, p.Name)
	}
	for _, want := range []string{"podrun", "containerd", "runc", "podrun-net", "libseccomp", "glibc", "stdlib", "k8s.io/kubernetes", "github.com/containerd/ttrpc"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
	if plain == "" {
		return
	}
	if out, err := exec.Command(plain, "version", "--sbom").CombinedOutput(); err == nil || !strings.Contains(string(out), "without a software bill of materials") {
		t.Errorf("%v: %s", err, out)
	}
}
