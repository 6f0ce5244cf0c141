package cni

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/test/ring"
)

// The listings in testdata are the output of nft 1.0.6 for testdata/rules.nft. That file contains
// the rules of two sandboxes, in the plugins' format, and other rules of the host.
var nftListings = map[nftTable]string{
	{"ip", "cni_hostport"}:             "nft-hostport.json",
	{"inet", "cni_plugins_masquerade"}: "nft-masquerade.json",
	{"bridge", "nat"}:                  "nft-bridge.json",
}

func testdata(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestNftRemoval(t *testing.T) {
	tables, err := tablesOf(testdata(t, "nft-tables.json"))
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, table := range tables {
		script, err := nftRemoval(testdata(t, nftListings[table]), table, []string{gone})
		if err != nil {
			t.Fatal(err)
		}
		got += string(script)
	}
	want := `delete rule ip cni_hostport hostports handle 5
delete rule ip cni_hostport masquerading handle 9
delete rule ip cni_hostport masquerading handle 10
delete rule inet cni_plugins_masquerade masq_checks handle 3
delete rule inet cni_plugins_masquerade masq_checks handle 5
delete rule bridge nat cni-br-iface-` + gone + `-eth0-mac handle 5
delete rule bridge nat cni-br-iface-` + gone + `-eth0-mac handle 6
delete rule bridge nat cni-br-iface-` + gone + `-eth0 handle 7
delete rule bridge nat PREROUTING handle 9
delete chain bridge nat cni-br-iface-` + gone + `-eth0-mac
delete chain bridge nat cni-br-iface-` + gone + `-eth0
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for table, file := range nftListings {
		if script, err := nftRemoval(testdata(t, file), table, []string{strings.Repeat("a", 64)}); err != nil || len(script) > 0 {
			t.Errorf("of another sandbox: %s %v", script, err)
		}
	}
	if _, err := nftRemoval([]byte("{"), nftTables[0], []string{gone}); err == nil {
		t.Error("a truncated listing is accepted")
	}
}

func TestNftNamesAreNoScript(t *testing.T) {
	const listing = `{"nftables": [{"rule": {"family": "ip", "table": "cni_hostport", "chain": "x handle 1\nflush ruleset #", "comment": "` + gone + `", "handle": 7}},
		{"chain": {"family": "ip", "table": "cni_hostport", "name": "cni-br-iface-` + gone + `-x; flush ruleset"}}]}`
	if script, err := nftRemoval([]byte(listing), nftTables[0], []string{gone}); err != nil || len(script) > 0 {
		t.Errorf("%s %v", script, err)
	}
}

func TestIsNftComment(t *testing.T) {
	const cut = "77b7bb4555981132-164a27bba14a02ea, net: podrun-test-5ccfa06d, if: eth0, id: 56e19cca1259bddc7e655867b80da0ecf320dbebde5e2c5d0326"
	for comment, want := range map[string]bool{
		gone:                            true,
		here:                            false,
		"":                              false,
		"macspoofchk-" + gone + "-eth0": true,
		"macspoofchk-" + here + "-eth0": false,
		cut:                             true,
		// The ID of another sandbox may have the same prefix.
		strings.Replace(cut, "164a", "264a", 1): false,
		// The hash also covers the interface.
		strings.Replace(cut, "eth0", "eth1", 1): false,
		"of the host, id: " + gone:              false,
	} {
		if got := isNftComment(comment, gone); got != want {
			t.Errorf("%q: %v", comment, got)
		}
	}
}

// TestRemoveNft uses this machine's kernel, in a separate network namespace. It checks that the
// removal removes the rules of the sandbox and no others.
func TestRemoveNft(t *testing.T) {
	nft := inOwnNetwork(t)
	if out, err := exec.Command(nft, "-f", "testdata/rules.nft").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The removal can be repeated.
	for range 2 {
		if err := removeNft(t.Context(), []string{gone}); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(nft, "list", "ruleset").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	left := string(out)
	if n := strings.Count(left, gone[:40]); n != 1 || !strings.Contains(left, `tcp dport 9 accept comment "`+gone) {
		t.Errorf("%d rules are left of the sandbox, want only the one in the host's table:\n%s", n, left)
	}
	if n := strings.Count(left, here); n != 5 || !strings.Contains(left, "id: "+here[:40]) || !strings.Contains(left, `comment "of the host"`) || !strings.Contains(left, "goto masq_checks") {
		t.Errorf("5 occurrences of another sandbox, a truncated one and the host's own rules must remain; %d do:\n%s", n, left)
	}
}

// inOwnNetwork moves the test's thread to a new network namespace. It returns the path of nft. The
// thread exits with the test, so no other test runs in the namespace.
func inOwnNetwork(t *testing.T) (nft string) {
	t.Helper()
	ring.RequireRoot(t)
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("requires nft (Debian package nftables)")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	return nft
}
