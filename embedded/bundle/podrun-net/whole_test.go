package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/vishvananda/netlink"
)

// wholeNet is a network of the plugin without a chain.
type wholeNet struct {
	*testHost
	dir string // of addresses
}

func newWhole(t *testing.T) *wholeNet {
	t.Helper()
	return &wholeNet{testHost: newHost(t), dir: t.TempDir()}
}

// sandbox is an empty sandbox.
func (w *wholeNet) sandbox() *pod {
	w.t.Helper()
	n := w.next
	w.next++
	return &pod{space: newSpace(w.t), host: w.testHost, id: strings.Repeat(fmt.Sprintf("%02x", n), 32), bridge: "br0"}
}

// config returns the network's configuration with other or additional settings.
func (w *wholeNet) config(settings map[string]any) map[string]any {
	out := map[string]any{"cniVersion": "1.1.0", "name": "podrun", "type": "podrun-net", "bridge": "br0", "isDefaultGateway": true, "hairpinMode": true,
		"ipam": map[string]any{"type": "host-local", "dataDir": w.dir, "ranges": [][]map[string]string{{{"subnet": "10.99.0.0/24"}}, {{"subnet": "fd00:99::/64"}}}}}
	maps.Copy(out, settings)
	return out
}

func ports(mappings ...portMapping) map[string]any {
	return map[string]any{"runtimeConfig": map[string]any{"portMappings": mappings}}
}

func static(addresses string) map[string]any {
	return map[string]any{"runtimeConfig": map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{"podrun.dev/ip": addresses}}}
}

// attach adds a sandbox, sets its addresses, and returns the result.
func (w *wholeNet) attach(p *pod, settings map[string]any) *current.Result {
	w.t.Helper()
	out, errs, err := w.call("ADD", p, w.config(settings))
	if err != nil {
		w.t.Fatalf("ADD: %v\n%s%s", err, out, errs)
	}
	parsed, err := current.NewResult([]byte(out))
	if err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	r := parsed.(*current.Result)
	for _, ip := range r.IPs {
		if ip.Address.IP.To4() != nil {
			p.ip4 = ip.Address.IP.String()
		} else {
			p.ip6 = ip.Address.IP.String()
		}
	}
	return r
}

func (w *wholeNet) detach(p *pod) {
	w.t.Helper()
	w.must("DEL", p, w.config(nil))
}

// files lists the reserved addresses.
func (w *wholeNet) files() []string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, "podrun"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		if e.Name() != "lock" && !strings.HasPrefix(e.Name(), "last_reserved_ip.") {
			out = append(out, e.Name())
		}
	}
	return out
}

// links lists the interfaces of the bridge.
func (w *wholeNet) links() (out []string) {
	w.t.Helper()
	w.do(func() {
		links, err := netlink.LinkList()
		if err != nil {
			w.t.Error(err)
		}
		for _, l := range links {
			if l.Type() == "veth" && l.Attrs().Name != "up0" {
				out = append(out, l.Attrs().Name)
			}
		}
	})
	return out
}

// empty fails the test if an address, an interface or a rule remains.
func (w *wholeNet) empty() {
	w.t.Helper()
	if files, links := w.files(), w.links(); len(files)+len(links) > 0 {
		w.t.Errorf("addresses %q and interfaces %q are left", files, links)
	}
	w.leftNothing()
}

func TestWhole(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	p, other := w.sandbox(), w.sandbox()
	r := w.attach(p, ports(portMapping{8080, 80, "tcp", ""}, portMapping{8080, 80, "udp", ""}))
	if p.ip4 != "10.99.0.2" || p.ip6 != "fd00:99::2" || len(r.Interfaces) != 3 || r.Interfaces[0].Name != "br0" || r.Interfaces[1].Name != vethName(p.id+"/eth0") ||
		r.Interfaces[2].Name != "eth0" || r.Interfaces[2].Sandbox == "" || len(r.Routes) != 2 || r.IPs[0].Gateway.String() != "10.99.0.1" {
		t.Errorf("result %+v, interfaces %v", r, r.Interfaces)
	}
	for _, i := range r.Interfaces {
		if i.Mac == "" {
			t.Errorf("no MAC address: %+v", i)
		}
	}
	w.attach(other, nil)
	if want := []string{"10.99.0.2", "10.99.0.3", "fd00:99::2", "fd00:99::3"}; !slices.Equal(w.files(), want) {
		t.Errorf("addresses %q", w.files())
	}
	data, err := os.ReadFile(filepath.Join(w.dir, "podrun", p.ip4))
	if want := p.id + "\r\neth0"; err != nil || string(data) != want { // host-local's format
		t.Errorf("%q, %v: want %q", data, err, want)
	}
	for _, network := range []string{"tcp", "udp"} {
		p.serve(network, ":80")
		w.outside.serve(network, ":90")
		w.outside.wants(network, hostIP4+":8080", "hi "+outsideIP4)
		w.outside.wants(network, "["+hostIP6+"]:8080", "hi "+outsideIP6)
		w.wants(network, "127.0.0.1:8080", "hi 10.99.0.1")
		p.wants(network, hostIP4+":8080", "hi 10.99.0.1") // hairpin
		other.wants(network, p.ip4+":80", "hi "+other.ip4)
		other.wants(network, "["+p.ip6+"]:80", "hi "+other.ip6)
		p.wants(network, outsideIP4+":90", "hi "+hostIP4)
		p.wants(network, "["+outsideIP6+"]:90", "hi "+hostIP6)
	}
	w.check(p, r, ports(portMapping{8080, 80, "tcp", ""}, portMapping{8080, 80, "udp", ""}))
	w.detach(p)
	w.detach(p)
	w.outside.wants("tcp", hostIP4+":8080", "")
	if want := []string{"10.99.0.3", "fd00:99::3"}; !slices.Equal(w.files(), want) {
		t.Errorf("addresses %q", w.files())
	}
	w.detach(other)
	w.empty()
}

// check calls CHECK, which succeeds, and then fails for each part that another program
// changed.
func (w *wholeNet) check(p *pod, r *current.Result, settings map[string]any) {
	w.t.Helper()
	r.CNIVersion = "1.1.0"
	data, err := json.Marshal(r)
	if err != nil {
		w.t.Fatal(err)
	}
	conf := w.config(settings)
	conf["prevResult"] = json.RawMessage(data)
	w.must("CHECK", p, conf)
	fails := func(want string) {
		w.t.Helper()
		if out, _, err := w.call("CHECK", p, conf); err == nil || !strings.Contains(out, want) {
			w.t.Errorf("CHECK: %v: %s: want %q", err, out, want)
		}
	}
	lease := filepath.Join(w.dir, "podrun", p.ip4)
	lease6 := filepath.Join(w.dir, "podrun", p.ip6)
	for _, path := range []string{lease, lease6} {
		if err := os.Rename(path, path+".away"); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, path := range []string{lease, lease6} {
		text, _ := os.ReadFile(path + ".away")
		os.Remove(path + ".away")
		defer os.WriteFile(path, text, 0o600)
	}
	fails("no address is reserved")
	for _, path := range []string{lease, lease6} {
		if err := os.WriteFile(path, []byte(p.id+"\r\neth0"), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	p.do(func() {
		l := up(w.t, "eth0")
		if err := netlink.AddrDel(l, must(netlink.ParseAddr(p.ip4+"/24"))); err != nil {
			w.t.Error(err)
		}
	})
	fails("10.99.0.2")
	p.do(func() {
		l := up(w.t, "eth0", p.ip4+"/24")
		if err := netlink.RouteReplace(&netlink.Route{LinkIndex: l.Attrs().Index, Gw: r.IPs[0].Gateway}); err != nil {
			w.t.Error(err)
		}
	})
	w.do(func() {
		if err := netlink.LinkSetNoMaster(up(w.t, r.Interfaces[1].Name)); err != nil {
			w.t.Error(err)
		}
	})
	fails("is not attached to the bridge br0")
	w.do(func() {
		if err := netlink.LinkSetMaster(up(w.t, r.Interfaces[1].Name), up(w.t, "br0")); err != nil {
			w.t.Error(err)
		}
	})
	w.must("CHECK", p, conf)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// DEL requires neither the network namespace nor the interface in it.
func TestDelWithoutNamespace(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	p, second := w.sandbox(), w.sandbox()
	w.attach(p, ports(portMapping{8080, 80, "tcp", ""}))
	w.attach(second, nil)
	if _, _, err := w.callIn("", "DEL", p, w.config(nil)); err != nil {
		t.Error(err)
	}
	if _, _, err := w.callIn("/run/no/such/namespace", "DEL", second, w.config(nil)); err != nil {
		t.Error(err)
	}
	w.empty()
}

// An ADD for an existing attachment fails and changes nothing.
func TestSecondAdd(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	p := w.sandbox()
	r := w.attach(p, ports(portMapping{8080, 80, "tcp", ""}))
	p.serve("tcp", ":80")
	if out, _, err := w.call("ADD", p, w.config(nil)); err == nil || !strings.Contains(out, "already has an interface eth0") {
		t.Errorf("%v: %s", err, out)
	}
	w.outside.wants("tcp", hostIP4+":8080", "hi "+outsideIP4)
	w.check(p, r, ports(portMapping{8080, 80, "tcp", ""}))
	w.detach(p)
	w.empty()
}

func TestStaticAddress(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	p, second := w.sandbox(), w.sandbox()
	w.attach(p, static("fd00:99::77, 10.99.0.77"))
	if p.ip4 != "10.99.0.77" || p.ip6 != "fd00:99::77" {
		t.Errorf("%s and %s", p.ip4, p.ip6)
	}
	for text, want := range map[string]string{
		"10.99.0.77":             "the requested address 10.99.0.77 is in use by sandbox " + p.id + "/eth0",
		"10.98.0.7":              "the requested address 10.98.0.7 is in none of the ranges 10.99.0.1-10.99.0.254, fd00:99::1-fd00:99::ffff:ffff:ffff:ffff",
		"10.99.0.1":              "is the gateway's",
		"10.99.0.255":            "is in none of the ranges",
		"10.99.0.7,10.99.0.8":    "are in the same range",
		"10.99.0.7;":             "is not an IP address",
		"10.99.0.7,fd00:99::77 ": "the requested address fd00:99::77 is in use",
	} {
		if out, _, err := w.call("ADD", second, w.config(static(text))); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s: want %q", text, err, out, want)
		}
		if n := len(w.files()); n != 2 || len(w.links()) != 1 {
			t.Errorf("%s: %d addresses and interfaces %q are left", text, n, w.links())
		}
	}
	w.attach(second, static("10.99.0.7"))
	if second.ip4 != "10.99.0.7" || second.ip6 == "" {
		t.Errorf("%s and %s", second.ip4, second.ip6)
	}
	w.detach(p)
	w.detach(second)
	w.empty()
}

func TestAllAddressesInUse(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	small := map[string]any{"ipam": map[string]any{"type": "host-local", "dataDir": w.dir, "ranges": [][]map[string]string{{{"subnet": "10.99.0.0/30"}}}}}
	p, second := w.sandbox(), w.sandbox()
	w.attach(p, small)
	if out, _, err := w.call("ADD", second, w.config(small)); err == nil || !strings.Contains(out, "all addresses of 10.99.0.1-10.99.0.2 are in use") {
		t.Errorf("%v: %s", err, out)
	}
	w.detach(p)
	w.attach(second, small)
	w.detach(second)
	w.empty()
}

func TestWholeGC(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	keep, gone, dead := w.sandbox(), w.sandbox(), w.sandbox()
	for i, p := range []*pod{keep, gone, dead} {
		w.attach(p, ports(portMapping{8080 + i, 80, "tcp", ""}))
	}
	gc := func(onlyUnused bool, valid ...*pod) {
		t.Helper()
		list := []map[string]string{}
		for _, p := range valid {
			list = append(list, map[string]string{"containerID": p.id, "ifname": "eth0"})
		}
		w.must("GC", nil, w.config(map[string]any{"cni.dev/valid-attachments": list, "podrun.dev/only-unused": onlyUnused}))
	}
	holds := func(addresses, interfaces, tableRules int) {
		t.Helper()
		if a, i, r := len(w.files()), len(w.links()), w.count("br0"); a != addresses || i != interfaces || r != tableRules {
			t.Errorf("%d addresses, %d interfaces, %d rules: want %d, %d, %d", a, i, r, addresses, interfaces, tableRules)
		}
	}
	const perPod = 1 + 3 + 1 + 2 // rules
	w.do(func() {                // the end of the sandbox's namespace
		if err := netlink.LinkDel(up(t, vethName(dead.id+"/eth0"))); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(w.dir, "podrun", "10.99.0.99"), nil, 0o600); err != nil { // a kill during a reservation
		t.Fatal(err)
	}
	holds(7, 2, 3*perPod)
	gc(true, keep)
	holds(4, 2, 2*perPod)
	gc(false, keep)
	holds(2, 1, perPod)
	gc(true)
	holds(2, 1, perPod)
	gc(false)
	w.empty()
	gc(false)
}

// DEL removes attachments that the chain of an earlier release created. Their interfaces have random names; their
// addresses and rules are the same.
func TestDelOfEarlierRelease(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	w.addBridge("br0", 77)
	p := w.addPod("br0", 77)
	p.add(portMapping{8080, 80, "tcp", ""})
	if err := os.MkdirAll(filepath.Join(w.dir, "podrun"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "podrun", p.ip4), []byte(p.id+"\r\neth0"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.detach(p)
	w.empty()
}

func TestConcurrentAttachments(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	var pods []*pod
	for range 6 {
		pods = append(pods, w.sandbox())
	}
	done := make(chan error)
	for n, p := range pods {
		go func() {
			var failed error
			for range 3 {
				for _, command := range []string{"ADD", "GC", "DEL"} {
					conf := w.config(ports(portMapping{8000 + n, 80, "tcp", ""}))
					at := p
					if command == "GC" { // no attachment is valid, because all calls of ADD and DEL are in progress
						at, conf["cni.dev/valid-attachments"], conf["podrun.dev/only-unused"] = nil, []any{}, true
					}
					if out, errs, err := w.call(command, at, conf); err != nil && failed == nil {
						failed = fmt.Errorf("%s: %w: %s%s", command, err, out, errs)
					}
					if command == "GC" && failed == nil {
						data, err := os.ReadDir(filepath.Join(w.dir, "podrun"))
						held := 0
						for _, e := range data {
							if text, _ := os.ReadFile(filepath.Join(w.dir, "podrun", e.Name())); strings.HasPrefix(string(text), p.id) {
								held++
							}
						}
						if err != nil || held != 2 {
							failed = fmt.Errorf("GC left %d of 2 addresses, %v", held, err)
						}
					}
				}
			}
			done <- failed
		}()
	}
	for range pods {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	w.empty()
}

// Forwarding of IPv6 must not make the host ignore router advertisements.
func TestKeepRouters(t *testing.T) {
	dir := t.TempDir()
	for name, values := range map[string][2]string{"all": {"1", "0"}, "default": {"1", "0"}, "eth0": {"1", "0"}, "eth1": {"0", "0"}, "eth2": {"2", "0"}, "eth3": {"1", "1"}} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		for i, file := range []string{"accept_ra", "forwarding"} {
			if err := os.WriteFile(filepath.Join(dir, name, file), []byte(values[i]+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func() string {
		out := ""
		for _, name := range []string{"all", "default", "eth0", "eth1", "eth2", "eth3"} {
			data, err := os.ReadFile(filepath.Join(dir, name, "accept_ra"))
			if err != nil {
				t.Fatal(err)
			}
			out += strings.TrimSpace(string(data))
		}
		return out
	}
	if err := os.WriteFile(filepath.Join(dir, "all", "forwarding"), []byte("1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := keepRouters(dir); err != nil || read() != "111021" {
		t.Errorf("already forwarding: %s, %v", read(), err)
	}
	if err := os.WriteFile(filepath.Join(dir, "all", "forwarding"), []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := keepRouters(dir); err != nil || read() != "112021" {
		t.Errorf("%s, %v", read(), err)
	}
}

func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for name, value := range map[string]any{"vlan": 3, "vlanTrunk": []any{map[string]int{"id": 3}}, "promiscMode": true, "macspoofchk": true, "portIsolation": true,
		"disableContainerInterface": true, "ipam": map[string]any{"type": "dhcp"}, "mtu": -1, "bridge": "up0"} {
		p := w.sandbox()
		if out, _, err := w.call("ADD", p, w.config(map[string]any{name: value})); err == nil || !strings.Contains(out, "network podrun") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	w.empty()
}

// TestSandboxSettings checks the sysctls of the host and of the sandbox.
func TestSandboxSettings(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	p := w.sandbox()
	w.attach(p, map[string]any{"mtu": 1400})
	p.do(func() {
		if l := up(t, "eth0"); l.Attrs().MTU != 1400 {
			t.Errorf("the MTU is %d", l.Attrs().MTU)
		}
		addresses, err := netlink.AddrList(up(t, "eth0"), netlink.FAMILY_V6)
		if err != nil || len(addresses) != 2 { // and the link-local address
			t.Errorf("%v, %v", addresses, err)
		}
		if got := readSysctl(t, "net/ipv4/conf/eth0/arp_notify") + readSysctl(t, "net/ipv6/conf/eth0/ndisc_notify") + readSysctl(t, "net/ipv6/conf/eth0/accept_dad"); got != "110" {
			t.Errorf("sysctls: %s", got)
		}
	})
	w.do(func() {
		if got := readSysctl(t, "net/ipv6/conf/br0/accept_ra") + readSysctl(t, "net/ipv6/conf/all/forwarding") + readSysctl(t, "net/ipv4/ip_forward"); got != "011" {
			t.Errorf("sysctls: %s", got)
		}
		if got := readSysctl(t, "net/ipv6/conf/up0/accept_ra"); got != "2" {
			t.Errorf("accept_ra of the uplink is %s", got)
		}
		before := up(t, "br0").Attrs().HardwareAddr.String()
		if before != bridgeMAC("br0").String() {
			t.Errorf("the bridge's MAC address is %s", before)
		}
	})
	w.detach(p)
}

// STATUS creates the rules and removes them in one transaction.
func TestWholeStatus(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	w.must("STATUS", nil, w.config(nil))
	w.empty()
	unusable := map[string]any{"ipam": map[string]any{"type": "host-local", "dataDir": "/proc/version", "ranges": [][]map[string]string{{{"subnet": "10.99.0.0/24"}}}}}
	if out, _, err := w.call("STATUS", nil, w.config(unusable)); err == nil || !strings.Contains(out, `"code": 50`) || !strings.Contains(out, "cannot reserve addresses") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestRequestedMAC(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	for name, settings := range map[string]map[string]any{
		"capability": {"runtimeConfig": map[string]string{"mac": "02:00:00:00:00:07"}, "args": map[string]any{"cni": map[string]string{"mac": "02:00:00:00:00:08"}}},
		"args":       {"args": map[string]any{"cni": map[string]string{"mac": "02:00:00:00:00:07"}}},
		"CNI_ARGS":   {},
	} {
		p := w.sandbox()
		if name == "CNI_ARGS" {
			w.env = []string{"CNI_ARGS=IgnoreUnknown=1;MAC=02:00:00:00:00:07;K8S_POD_NAME=web"}
		}
		if r := w.attach(p, settings); r.Interfaces[2].Mac != "02:00:00:00:00:07" {
			t.Errorf("%s: %+v", name, r.Interfaces[2])
		}
		w.detach(p)
		w.env = nil
	}
	for _, mac := range []string{"02:00", "01:00:00:00:00:07", "02:00:00:00:00:00:00:07"} {
		if out, _, err := w.call("ADD", w.sandbox(), w.config(map[string]any{"runtimeConfig": map[string]string{"mac": mac}})); err == nil || !strings.Contains(out, "is not a MAC address") {
			t.Errorf("%s: %v: %s", mac, err, out)
		}
	}
	w.empty()
}

// The MAC address of a bridge that another program created does not change with its ports.
func TestMACOfExistingBridge(t *testing.T) {
	t.Parallel()
	w := newWhole(t)
	var before string
	w.do(func() {
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0", HardwareAddr: nil}}); err != nil {
			t.Error(err)
		}
		before = up(t, "br0").Attrs().HardwareAddr.String()
	})
	p := w.sandbox()
	r := w.attach(p, map[string]any{"runtimeConfig": map[string]string{"mac": "02:00:00:00:00:07"}})
	if r.Interfaces[0].Mac != before {
		t.Errorf("the MAC address of the bridge was %s and is %s", before, r.Interfaces[0].Mac)
	}
	w.detach(p)
	w.empty()
}
