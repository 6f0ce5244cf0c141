package main

import (
	"flag"
	"os"
	"os/exec"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata")

// The expected rules are in the output format of nft, which is easier to read than kernel
// expressions.
func TestRuleset(t *testing.T) {
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("no nft on this machine")
	}
	h := newHost(t)
	h.addBridge("br0", 77)
	p := h.addPod("br0", 77)
	p.id = "0123456789ab"
	p.add(portMapping{8080, 80, "tcp", ""}, portMapping{5353, 53, "udp", "127.0.0.1"}, portMapping{9899, 99, "sctp", "2001:db8:1::1"})
	var got strings.Builder
	h.do(func() {
		for _, family := range []string{"ip", "ip6"} {
			out, err := exec.Command(nft, "list", "table", family, "podrun-net-br0").CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			got.Write(out)
		}
	})
	// Versions of nft print the named priorities differently.
	text := strings.ReplaceAll(got.String(), "priority -100", "priority dstnat")
	const file = "testdata/ruleset.nft"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the rules:\n%s\nwant:\n%s", text, want)
	}
}
