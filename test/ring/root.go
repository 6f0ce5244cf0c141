package ring

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// RequireRoot skips a test that changes the owners of files, or creates mounts, network namespaces
// or cgroups, if this process may not do so: it is not root, or is root in a container without
// privileges.
func RequireRoot(t testing.TB) {
	t.Helper()
	if lacks := Lacks(t); lacks != "" {
		t.Skip(lacks)
	}
}

// Lacks returns which privilege of RequireRoot this process does not have, or "".
func Lacks(t testing.TB) string {
	t.Helper()
	if os.Geteuid() != 0 {
		return "not root"
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	held := effective(string(status))
	for name, capability := range map[string]int{"CAP_SYS_ADMIN": unix.CAP_SYS_ADMIN, "CAP_NET_ADMIN": unix.CAP_NET_ADMIN} {
		if held&(1<<capability) == 0 {
			return "root without " + name
		}
	}
	return ""
}

// effective returns the effective capabilities in the content of /proc/PID/status, or 0 if it has none.
func effective(status string) uint64 {
	_, rest, _ := strings.Cut(status, "\nCapEff:\t")
	hex, _, _ := strings.Cut(rest, "\n")
	held, err := strconv.ParseUint(hex, 16, 64)
	if err != nil {
		return 0
	}
	return held
}
