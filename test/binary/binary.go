// Package binary builds podrun for tests that run it as a process on a real runtime.
package binary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/podrun/podrun/test/inherited"
)

// Main is the TestMain of a package below test. It builds podrun at *path with the given flags of
// go build, and runs the tests. If there is no container runtime, it does not build podrun, and
// *path remains empty.
func Main(m *testing.M, path *string, flags ...string) {
	inherited.Reset()
	dir, err := os.MkdirTemp("", "podrun-test-")
	if err == nil && os.Getenv("CONTAINER_RUNTIME_ENDPOINT") != "" {
		*path = filepath.Join(dir, "podrun")
		err = Build(*path, flags...)
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// Build builds podrun with the given flags of go build, for a package below test.
func Build(path string, flags ...string) error {
	build := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", path}, flags...), "../..")...)
	build.Stderr = os.Stderr
	return build.Run()
}
