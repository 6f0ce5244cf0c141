package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/nftables"
)

// leftNothing fails the test if the plugin left a table or a rule.
func (h *testHost) leftNothing() {
	h.t.Helper()
	h.do(func() {
		tables, err := readTables()
		if err != nil || len(tables) != 0 {
			h.t.Errorf("tables: %v, %v: want none", tables, err)
		}
		for _, f := range families {
			rules, err := readRules(&nftables.Table{Family: f.id, Name: filterTable}, []string{forwardChain})
			if err != nil {
				h.t.Error(err)
			}
			for _, r := range rules {
				if strings.HasPrefix(r.comment, "podrun-net") {
					h.t.Errorf("rule in FORWARD: %+v", r)
				}
			}
		}
	})
}

// count returns the number of attachment rules of a network.
func (h *testHost) count(bridge string) (n int) {
	h.t.Helper()
	h.do(func() {
		tables, err := readTables()
		if err != nil {
			h.t.Error(err)
		}
		for _, t := range tables {
			if t.Name != tableName(bridge) {
				continue
			}
			rules, err := readRules(t, attachmentChains)
			if err != nil {
				h.t.Error(err)
			}
			n += len(rules)
		}
	})
	return n
}

// With br_netfilter, the firewall also processes packets that a bridge forwards. So packets
// between pods take different paths with and without it.
func TestHostPorts(t *testing.T) {
	for _, filtered := range []string{"0", "1"} {
		t.Run("br_netfilter="+filtered, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.do(func() {
				for _, name := range []string{"iptables", "ip6tables"} {
					if _, err := os.Stat("/proc/sys/net/bridge/bridge-nf-call-" + name); err == nil {
						writeSysctl(t, "net/bridge/bridge-nf-call-"+name, filtered)
					}
				}
			})
			h.testHostPorts()
		})
	}
}

func (h *testHost) testHostPorts() {
	h.addBridge("br0", 77)
	p, other := h.addPod("br0", 77), h.addPod("br0", 77)
	for _, network := range []string{"tcp", "udp"} {
		p.serve(network, ":80")
	}
	other.add()
	p.add(portMapping{8080, 80, "tcp", ""}, portMapping{8080, 80, "UDP", ""},
		portMapping{8081, 80, "", hostIP4}, portMapping{8082, 80, "tcp", "127.0.0.1"}, portMapping{8083, 80, "tcp", "0.0.0.0"},
		portMapping{8084, 80, "tcp", hostIP6}, portMapping{8085, 80, "tcp", "::"})
	for _, network := range []string{"tcp", "udp"} {
		// The source address of traffic from outside must not change.
		h.outside.wants(network, hostIP4+":8080", "hi "+outsideIP4)
		h.outside.wants(network, "["+hostIP6+"]:8080", "hi "+outsideIP6)
		h.wants(network, "127.0.0.1:8080", "hi 10.77.0.1")
		h.wants(network, hostIP4+":8080", "hi "+hostIP4)
		h.wants(network, "["+hostIP6+"]:8080", "hi "+hostIP6)
		p.wants(network, hostIP4+":8080", "hi 10.77.0.1") // hairpin
		p.wants(network, "["+hostIP6+"]:8080", "hi fd00:77::1")
		other.wants(network, hostIP4+":8080", "hi 10.77.0.1")
		other.wants(network, "10.77.0.1:8080", "hi 10.77.0.1")
		other.wants(network, p.ip4+":80", "hi "+other.ip4) // between pods
	}
	// This is not possible in the kernel.
	h.wants("tcp", "[::1]:8080", "")
	h.outside.wants("tcp", hostIP4+":8081", "hi "+outsideIP4)
	h.wants("tcp", "127.0.0.1:8081", "")
	h.outside.wants("tcp", "["+hostIP6+"]:8081", "")
	h.wants("tcp", "127.0.0.1:8082", "hi 10.77.0.1")
	h.outside.wants("tcp", hostIP4+":8082", "")
	h.outside.wants("tcp", hostIP4+":8083", "hi "+outsideIP4)
	h.outside.wants("tcp", "["+hostIP6+"]:8083", "")
	h.outside.wants("tcp", "["+hostIP6+"]:8084", "hi "+outsideIP6)
	h.outside.wants("tcp", hostIP4+":8084", "")
	h.outside.wants("tcp", "["+hostIP6+"]:8085", "hi "+outsideIP6)

	p.del()
	h.outside.wants("tcp", hostIP4+":8080", "")
	h.wants("tcp", "127.0.0.1:8080", "")
	other.del()
	h.leftNothing()
}

func TestMasquerade(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	p := h.addPod("br0", 77)
	for _, network := range []string{"tcp", "udp"} {
		h.outside.serve(network, ":90")
	}
	h.outside.wants("tcp", p.ip4+":1", "") // no route
	p.wants("tcp", outsideIP4+":90", "")
	p.add()
	h.do(func() {
		if got := readSysctl(t, "net/ipv4/ip_forward"); got != "1" {
			t.Errorf("ip_forward is %s", got)
		}
		if got := readSysctl(t, "net/ipv4/conf/br0/route_localnet"); got != "0" {
			t.Errorf("route_localnet is %s without host ports", got)
		}
	})
	for _, network := range []string{"tcp", "udp"} {
		p.wants(network, outsideIP4+":90", "hi "+hostIP4)
		p.wants(network, "["+outsideIP6+"]:90", "hi "+hostIP6)
	}
	p.del()
	h.leftNothing()
}

// A pod must not reach services that listen only on the host's 127.0.0.1 (CVE-2020-8558),
// although route_localnet is set.
func TestLoopbackIsClosed(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	p := h.addPod("br0", 77)
	p.serve("tcp", ":80")
	h.serve("tcp", "127.0.0.1:99")
	p.do(func() {
		writeSysctl(t, "net/ipv4/conf/all/route_localnet", "1")
		if out, err := exec.Command("ip", "addr", "del", "127.0.0.1/8", "dev", "lo").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		for _, args := range []string{"route add 127.0.0.0/8 via 10.77.0.1 dev eth0 src " + p.ip4, "rule add pref 1 to 127.0.0.0/8 lookup main", "rule add pref 2 lookup local"} {
			if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
				t.Errorf("ip %s: %v: %s", args, err, out)
			}
		}
		if out, err := exec.Command("ip", "rule", "del", "pref", "0").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	h.do(func() {
		writeSysctl(t, "net/ipv4/conf/br0/route_localnet", "1")
		writeSysctl(t, "net/ipv4/ip_forward", "1")
	})
	// The attack would work.
	p.wants("tcp", "127.0.0.1:99", "hi "+p.ip4)
	p.add(portMapping{8080, 80, "tcp", ""})
	p.wants("tcp", "127.0.0.1:99", "")
	h.wants("tcp", "127.0.0.1:99", "hi 127.0.0.1")
	h.wants("tcp", "127.0.0.1:8080", "hi 10.77.0.1")
}

func TestTwoNetworks(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	h.addBridge("br1", 78)
	a, b := h.addPod("br0", 77), h.addPod("br1", 78)
	a.serve("tcp", ":80")
	b.serve("tcp", ":80")
	a.add(portMapping{8080, 80, "tcp", ""})
	b.add(portMapping{8081, 80, "tcp", ""})
	h.outside.wants("tcp", hostIP4+":8080", "hi "+outsideIP4)
	h.outside.wants("tcp", hostIP4+":8081", "hi "+outsideIP4)
	a.wants("tcp", hostIP4+":8081", "hi 10.78.0.1") // leaves its subnet
	a.wants("tcp", b.ip4+":80", "hi 10.78.0.1")
	a.del()
	h.outside.wants("tcp", hostIP4+":8080", "")
	h.outside.wants("tcp", hostIP4+":8081", "hi "+outsideIP4)
	b.del()
	h.leftNothing()
}

func TestRepeated(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	p := h.addPod("br0", 77)
	p.serve("tcp", ":80")
	p.del() // before any ADD
	port := portMapping{8080, 80, "tcp", ""}
	p.add(port)
	rules := h.count("br0")
	p.add(port)
	if n := h.count("br0"); n != rules || rules == 0 {
		t.Errorf("%d rules after the second ADD, %d after the first", n, rules)
	}
	h.outside.wants("tcp", hostIP4+":8080", "hi "+outsideIP4)
	h.must("CHECK", p, p.config(port))
	// This simulates nft flush ruleset. podrun serve then repeats the ADD.
	h.do(func() {
		c, err := conn()
		if err != nil {
			t.Error(err)
			return
		}
		c.FlushRuleset()
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
	})
	h.outside.wants("tcp", hostIP4+":8080", "")
	p.add(port)
	h.outside.wants("tcp", hostIP4+":8080", "hi "+outsideIP4)
	p.add() // with other ports
	h.outside.wants("tcp", hostIP4+":8080", "")
	if _, _, err := h.call("CHECK", p, p.config(port)); err == nil {
		t.Error("CHECK finds a host port that does not exist")
	}
	p.del()
	p.del()
	h.leftNothing()
	if _, _, err := h.call("CHECK", p, p.config()); err == nil {
		t.Error("CHECK finds an attachment that does not exist")
	}
}

// If a plugin is killed during ADD, it has created all rules or none, because they are one
// transaction. DEL must succeed even if another program has removed some of them.
func TestDelOfHalf(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	p := h.addPod("br0", 77)
	p.serve("tcp", ":80")
	p.add(portMapping{8080, 80, "tcp", ""})
	h.do(func() {
		c, err := conn()
		if err != nil {
			t.Error(err)
			return
		}
		t6 := &nftables.Table{Family: nftables.TableFamilyIPv6, Name: tableName("br0")}
		c.DelTable(t6)
		t4 := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName("br0")}
		c.FlushChain(&nftables.Chain{Table: t4, Name: chainHostPorts})
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
	})
	// DEL must succeed without the interface, the namespace and the network's name.
	stdin := map[string]any{"cniVersion": "1.0.0", "name": "any", "type": "podrun-net"}
	h.must("DEL", p, stdin)
	h.leftNothing()
}

func TestGC(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	h.addBridge("br1", 78)
	keep, gone, other := h.addPod("br0", 77), h.addPod("br0", 77), h.addPod("br1", 78)
	keep.serve("tcp", ":80")
	keep.add(portMapping{8080, 80, "tcp", ""})
	gone.add(portMapping{8081, 80, "tcp", ""})
	other.add()
	stdin := map[string]any{"cniVersion": "1.1.0", "name": "n", "type": "podrun-net", "bridge": "br0",
		"cni.dev/valid-attachments": []map[string]string{{"containerID": keep.id, "ifname": "eth0"}}}
	h.must("GC", nil, stdin)
	if n, want := h.count("br0"), 3+1+2+1; n != want {
		t.Errorf("%d rules, not %d", n, want)
	}
	h.outside.wants("tcp", hostIP4+":8080", "hi "+outsideIP4)
	stdin["cni.dev/valid-attachments"] = []map[string]string{}
	h.must("GC", nil, stdin)
	h.must("GC", nil, stdin)
	if n := h.count("br1"); n != 2 {
		t.Errorf("GC of a network changed another: it has %d rules", n)
	}
	other.del()
	h.leftNothing()
}

// If DEL never ran for a sandbox that was removed, its host port rule remains. This rule must
// not take precedence over the rule of a new sandbox.
func TestNewerHostPortWins(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	old, p := h.addPod("br0", 77), h.addPod("br0", 77)
	p.serve("tcp", ":80")
	p.serve("udp", ":80")
	old.add(portMapping{8080, 80, "tcp", ""}, portMapping{8080, 80, "udp", ""})
	h.outside.wants("udp", hostIP4+":8080", "")
	p.add(portMapping{8080, 80, "tcp", ""}, portMapping{8080, 80, "udp", ""})
	h.outside.wants("tcp", hostIP4+":8080", "hi "+outsideIP4)
	h.outside.wants("udp", hostIP4+":8080", "hi "+outsideIP4)
}

// The kernel must accept the rules for SCTP even if it does not support the protocol.
func TestSCTPAndManyPorts(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	p := h.addPod("br0", 77)
	p.serve("tcp", ":80")
	var ports []portMapping
	for n := range 1000 {
		ports = append(ports, portMapping{10000 + n, 80, "tcp", ""}, portMapping{10000 + n, 80, "sctp", ""})
	}
	p.add(ports...)
	h.must("CHECK", p, p.config(ports...))
	if n, want := h.count("br0"), 2*2000+3+2; n != want {
		t.Errorf("%d rules, not %d", n, want)
	}
	h.outside.wants("tcp", hostIP4+":10999", "hi "+outsideIP4)
	p.del()
	h.leftNothing()
}

// Plugins run concurrently. The last DEL must not remove a table to which an ADD has just added
// rules.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.addBridge("br0", 77)
	var pods []*pod
	for range 4 {
		pods = append(pods, h.addPod("br0", 77))
	}
	done := make(chan error)
	for _, p := range pods {
		go func() {
			var failed error
			for n := range 5 {
				for _, command := range []string{"ADD", "CHECK", "DEL"} {
					if out, errs, err := h.call(command, p, p.config(portMapping{8000 + n, 80, "tcp", ""})); err != nil && failed == nil {
						failed = fmt.Errorf("%s: %w: %s%s", command, err, out, errs)
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
	h.leftNothing()
}

func TestVersionAndStatus(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	out, _, err := h.call("VERSION", nil, nil)
	if err != nil || !strings.Contains(out, `"1.1.0"`) {
		t.Errorf("VERSION: %q, %v", out, err)
	}
	h.must("STATUS", nil, map[string]any{"cniVersion": "1.1.0", "name": "n", "type": "podrun-net", "bridge": "br0"})
	if out, _, err := h.call("STATUS", nil, map[string]any{"cniVersion": "1.1.0", "name": "n", "type": "podrun-net"}); err == nil {
		t.Errorf("STATUS without a bridge: %s", out)
	}
}
