package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// heldIPTables writes a program named iptables that does not remove the masquerading rule of the
// bridge plugin while the file held exists. By the time the plugin calls the program, the plugin's
// DEL has already removed the sandbox's interface, so a later DEL does not know the address in the
// rule.
func heldIPTables(dir, held string) error {
	real, err := exec.LookPath("iptables")
	if err != nil {
		return err
	}
	text := fmt.Sprintf(`#!/bin/sh
case "$*" in *"-D POSTROUTING"*)
	if [ -e %[1]s ]; then
		while [ -e %[1]s ]; do sleep 0.1; done
		exit 4
	fi ;;
esac
exec %[2]s "$@"
`, held, real)
	return os.WriteFile(filepath.Join(dir, "iptables"), []byte(text), 0o755)
}

// TestNetworkOfACutStop covers a DEL of a plugin that is interrupted before it has removed all
// rules. In TestRuntimeFaults with seed 16, this happened when containerd was frozen until the
// command's deadline and the extra time for the runtime's last call had expired. The next DEL
// succeeds, but does not remove these rules. The test interrupts a stop and, in ring 3,
// also deletes.
func TestNetworkOfACutStop(t *testing.T) {
	if program == "" || os.Getenv("PODRUN_TEST_IMAGE") == "" {
		t.Skip("no container runtime: CONTAINER_RUNTIME_ENDPOINT and PODRUN_TEST_IMAGE are not set")
	}
	dir := t.TempDir()
	held := filepath.Join(dir, "held")
	if err := heldIPTables(dir, held); err != nil {
		t.Fatal(err)
	}
	path := os.Getenv("PATH")
	t.Setenv("PATH", dir+":"+path)
	o := ownRuntime(t)
	t.Setenv("PATH", path)
	// This call ignores leftovers from before the test.
	o.leaks(t.Context(), newHost(dir, 0))
	after := []string{"start"}
	if ring.Is(3) {
		after = []string{"start", "delete", "apply"}
	}
	for i, then := range after {
		t.Run(then, func(t *testing.T) {
			h := newHost(dir, 1+i)
			if _, _, err := h.command("apply"); err != nil {
				t.Fatal(err)
			}
			if err := h.prepare("running"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(held, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			cut := []string{"delete", "--all"}
			if then == "start" {
				cut = []string{"stop", h.pod}
			}
			if r := h.podrun(nil, append(cut, "--timeout", "3s")...); r.code != 124 {
				t.Errorf("%s: code %d after %v: %s", cut[0], r.code, r.took, r.out)
			}
			if err := os.Remove(held); err != nil {
				t.Fatal(err)
			}
			if then != "delete" {
				next := []string{"start", h.pod}
				if then == "apply" {
					next = []string{"apply", filepath.Join(h.dir, "one.yaml")}
				}
				if r := h.podrun(nil, next...); r.code != 0 {
					t.Errorf("%s: code %d: %s", then, r.code, r.out)
				} else if err := o.runs(t.Context(), h.pod); err != nil {
					t.Error(err)
				}
			}
			if r := h.podrun(nil, "delete", "--all"); r.code != 0 {
				t.Errorf("delete: code %d: %s", r.code, r.out)
			}
			if left := o.leaks(t.Context(), h); len(left) > 0 {
				t.Errorf("left: %s", strings.Join(left, "\n\t"))
			}
		})
	}
}
