package e2e

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// TestLicenses tests a binary of go build, which contains a list of its modules. The test binary
// that runs the scripts does not contain this list.
func TestLicenses(t *testing.T) {
	ring.Require(t, 2)
	if program == "" {
		t.Skip("no container runtime: podrun is not built")
	}
	out, err := exec.Command(program, "version", "--licenses").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`(?m)^stdlib go1\.`, `(?m)^k8s.io/api v0\.36\.\d+$`, `(?m)^github.com/containerd/containerd/api v`} {
		if !regexp.MustCompile(want).Match(out) {
			t.Errorf("no %s in:\n%s", want, out)
		}
	}
}
