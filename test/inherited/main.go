package inherited

import (
	"os"
	"strings"
	"testing"
)

// Main is the TestMain of a package whose tests must not see podrun's settings. After Reset, it unsets the
// remaining environment variables of podrun, because those of the test runtime would affect the tests.
func Main(m *testing.M) {
	Reset()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PODRUN_") || name == "CONTAINER_RUNTIME_ENDPOINT" {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}
