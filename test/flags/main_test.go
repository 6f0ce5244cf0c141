// Package flags calls each command of podrun, in the test's process and on the fake runtime, with
// combinations of its flags and with strange values of the settings that are paths. It knows nothing
// about what a combination means. It checks what holds for all of them: podrun does not panic and does
// not hang, its exit code is documented, a dry run changes nothing, and the output contains each
// object that the command has changed.
package flags

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	// Variables of the environment would be settings. Without a PATH, podrun cannot run programs that
	// change the host, such as systemctl or nft.
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "PODRUN_") && name != "PODRUN_TEST_RING" || name == "CONTAINER_RUNTIME_ENDPOINT" {
			os.Unsetenv(name)
		}
	}
	for name, value := range map[string]string{"PATH": "/nonexistent", "KUBE_EDITOR": "/bin/true", "HOME": "/nonexistent"} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	debug.SetGCPercent(400) // a call allocates much, and keeps nothing
	os.Exit(m.Run())
}
