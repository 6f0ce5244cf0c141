package inside

import (
	"os"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/inherited"
)

// TestMain unsets the environment variables of podrun, because those of the test runtime would
// affect the tests.
func TestMain(m *testing.M) {
	inherited.Reset()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PODRUN_") || name == "CONTAINER_RUNTIME_ENDPOINT" {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}
