package cni

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
)

// TestLinkName uses the same test vector as the tests of podrun-net, which is in another module
// (embedded/bundle/podrun-net).
func TestLinkName(t *testing.T) {
	if got := linkName("0123456789ab/eth0"); got != "vethwrpqzk3ymji" {
		t.Errorf("%s", got)
	}
}

// TestCollect uses this machine's kernel, in a separate network namespace, and a plugin that records its calls. The
// tests of embedded/bundle/podrun-net cover the GC of the real plugin.
func TestCollect(t *testing.T) {
	nft := inOwnNetwork(t)
	root := t.TempDir()
	n := OwnNetwork{Plugin: filepath.Join(root, "podrun-net"), Config: filepath.Join(root, "10.conflist")}
	calls, addresses := filepath.Join(root, "calls"), filepath.Join(root, "addresses/podrun-1")
	starting, ruled := strings.Repeat("b", 64), strings.Repeat("c", 64)
	const chain = `{"name":"podrun-1","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"podrun-net","bridge":"podrun-1"}]}`
	whole := `{"cniVersion":"1.0.0","name":"podrun-1","plugins":[{"type":"podrun-net","bridge":"podrun-1","ipam":{"type":"host-local","dataDir":"` + root + `/addresses"}}]}`
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if unused, err := n.Unused(t.Context(), nil); err != nil || len(unused) > 0 {
		t.Errorf("without a network: %q, %v", unused, err)
	}
	write(n.Plugin, "#!/bin/sh\n{ echo $CNI_COMMAND; cat; } >"+calls+"\n")
	write(filepath.Join(addresses, "10.0.0.2"), here+"\r\neth0")
	write(filepath.Join(addresses, "10.0.0.3"), gone+"\r\neth0")
	write(filepath.Join(addresses, "10.0.0.4"), starting+"\r\neth0")
	write(filepath.Join(addresses, "10.0.0.5"), "")
	write(filepath.Join(addresses, "last_reserved_ip.0"), "10.0.0.5")
	write(filepath.Join(addresses, "lock"), "")
	attributes := netlink.NewLinkAttrs()
	attributes.Name = linkName(starting + "/eth0")
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		t.Fatal(err)
	}
	script := exec.Command(nft, "-f", "-")
	script.Stdin = strings.NewReader("table ip6 podrun-net-podrun-1 {\nchain postrouting {\ntype nat hook postrouting priority 100;\nmasquerade comment \"" + ruled + "/eth0\"\n}\n}\n")
	if out, err := script.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	write(n.Config, chain)
	if unused, err := n.Unused(t.Context(), nil); err != nil || len(unused) > 0 {
		t.Errorf("a chain: %q, %v", unused, err)
	}
	if err := n.Collect(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(calls); err == nil {
		t.Error("the plugin of a chain is called")
	}
	write(n.Config, whole)
	unused, err := n.Unused(t.Context(), []string{here})
	if want := []string{gone, ruled}; err != nil || !slices.Equal(unused, slices.Sorted(slices.Values(want))) {
		t.Errorf("unused %q, %v", unused, err)
	}
	if err := n.Collect(t.Context(), []string{here}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(calls)
	want := "GC\n" + `{"bridge":"podrun-1","cni.dev/valid-attachments":[{"containerID":"` + here + `","ifname":"eth0"}],"cniVersion":"1.1.0","ipam":{"type":"host-local","dataDir":"` + root + `/addresses"},"name":"podrun-1","podrun.dev/only-unused":true,"type":"podrun-net"}`
	if err != nil || string(got) != want {
		t.Errorf("%v: %s\nwant %s", err, got, want)
	}
	write(n.Config, "{")
	if _, err := n.Unused(t.Context(), nil); err == nil {
		t.Error("an invalid configuration is accepted")
	}
	if err := n.Collect(t.Context(), nil); err == nil {
		t.Error("an invalid configuration is accepted")
	}
}
