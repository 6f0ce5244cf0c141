package embedded

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMissingPrivileges runs a child process with the capabilities that docker gives a container by default, and
// checks that podrun refuses to start the embedded runtime there.
func TestMissingPrivileges(t *testing.T) {
	if os.Getenv("MISSING_PRIVILEGES") != "" {
		if got := MissingPrivileges(); got != "mount file systems (operation not permitted) or create network namespaces (operation not permitted)" {
			t.Errorf("missing: %q", got)
		}
		err := CheckHost(t.Context(), Layout{RootDir: t.TempDir()}, 0)
		if err == nil || !strings.Contains(err.Error(), "is not permitted to mount file systems") {
			t.Errorf("CheckHost: %v", err)
		}
		return
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("requires root and setpriv")
	}
	net, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	if got := MissingPrivileges(); got != "" {
		t.Skipf("the test itself is not permitted to %s", got)
	}
	if now, err := os.Readlink("/proc/self/ns/net"); err != nil || now != net {
		t.Errorf("the network namespace is %s (%v), was %s", now, err, net)
	}
	child := exec.CommandContext(t.Context(), setpriv, "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-sys_admin,-net_admin", os.Args[0], "-test.run=^TestMissingPrivileges$")
	child.Env = append(os.Environ(), "MISSING_PRIVILEGES=1")
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
