package cmd

import (
	"os"
	"strings"
	"testing"
)

// TestMain runs the tests without settings from the environment, which has those of the
// test runtime for packages that use it.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PODRUN_") || name == "CONTAINER_RUNTIME_ENDPOINT" {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}
