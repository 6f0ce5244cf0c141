package embedded

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	embed "github.com/podrun/podrun/embedded"
	"github.com/podrun/podrun/test/ring"
)

// requesting is the text of a pod that requests addresses.
func requesting(name, addresses string) string {
	text := strings.Replace(fmt.Sprintf(podText, imageName, 0), "hostPort: 0", "protocol: TCP", 1)
	return strings.Replace(text, "{name: web}", fmt.Sprintf("{name: %s, annotations: {podrun.dev/ip: %q}}", name, addresses), 1)
}

// subnets returns pod subnets that no other root directory uses, in canonical form, as podrun
// prints them: an ID may begin with zeros.
func (r *rig) subnets() (v4, v6 string) {
	r.Helper()
	p, err := embed.Subnet(r.layout.ID(), nil)
	if err != nil {
		r.Fatal(err)
	}
	id := r.layout.ID()
	p6, err := netip.ParsePrefix("fdba:" + id[:4] + ":" + id[4:] + "::/64")
	if err != nil {
		r.Fatal(err)
	}
	return p.String(), p6.String()
}

func TestRequestedAddress(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	v4, v6 := r.subnets()
	r.must("runtime", "up", "--pod-cidr="+v4+","+v6)
	ip4, ip6 := strings.TrimSuffix(v4, "0/24")+"50", strings.TrimSuffix(v6, "/64")+"50"
	r.write("one.yaml", requesting("one", ip6+", "+ip4))
	r.must("apply", "one.yaml")
	if out := r.must("get", "one", "-o", "jsonpath={.status.podIPs[*].ip}"); !strings.Contains(out, ip4) || !strings.Contains(out, ip6) {
		t.Errorf("the addresses are %q", out)
	}
	r.write("other.yaml", requesting("other", ip4))
	r.fails(125, "the requested address "+ip4+" is in use by sandbox", "apply", "other.yaml")
	r.write("outside.yaml", requesting("outside", "192.0.2.7"))
	r.fails(122, "192.0.2.7 is not in the pod subnets", "apply", "outside.yaml")
	r.write("one.yaml", requesting("one", strings.TrimSuffix(v4, "0/24")+"51"))
	if out := r.must("apply", "one.yaml"); !strings.Contains(out, "pod/one replaced") {
		t.Errorf("apply wrote\n%s", out)
	}
	if out := r.must("runtime", "up", "--pod-cidr=192.0.2.0/24"); !strings.Contains(out, "the pod subnets are "+v4+","+v6) {
		t.Errorf("up wrote\n%s", out)
	}
	r.kill()
	r.fails(122, "the pod subnet "+v4+" is in use", "get", "--pod-cidr=192.0.2.0/24")
	r.must("get")
	r.must("delete", "one")
	r.holdsNoAddress()
}

// addresses lists the reserved addresses.
func (r *rig) addresses() []string {
	r.Helper()
	entries, err := os.ReadDir(filepath.Join(r.layout.Addresses(), r.layout.Bridge()))
	if err != nil {
		r.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.Name() != "lock" && !strings.HasPrefix(e.Name(), "last_reserved_ip.") {
			out = append(out, e.Name())
		}
	}
	return out
}

func (r *rig) holdsNoAddress() {
	r.Helper()
	if left := r.addresses(); len(left) > 0 {
		r.Errorf("addresses are left: %q", left)
	}
}

// TestUnusedAddressesAreCollected covers a killed plugin, which leaves behind the address of a
// sandbox that containerd never lists.
func TestUnusedAddressesAreCollected(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	r.must("apply", "pod.yaml")
	before := r.addresses()
	v4, err := embed.ReadSubnets(t.Context(), r.layout)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.Repeat("ab", 32)
	prefix := strings.TrimSuffix(v4[0].String(), "0/24")
	for address, text := range map[string]string{prefix + "77": id + "\r\neth0", prefix + "78": ""} {
		if err := os.WriteFile(filepath.Join(r.layout.Addresses(), r.layout.Bridge(), address), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out := r.must("gc", "--dry-run"); !strings.Contains(out, "network/"+id+" left over") || len(r.addresses()) != len(before)+2 {
		t.Errorf("gc --dry-run wrote\n%s", out)
	}
	if out := r.must("gc"); !strings.Contains(out, "network/"+id+" removed") {
		t.Errorf("gc wrote\n%s", out)
	}
	if left := r.addresses(); !slices.Equal(left, before) {
		t.Errorf("addresses %q, want %q", left, before)
	}
	r.answers()
	r.must("delete", "web")
	r.holdsNoAddress()
}
