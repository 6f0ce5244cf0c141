package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

const (
	virtual4, virtual6 = "10.127.0.7", "fd00:127::7"
	nodePort           = 30080
)

// setServices executes the command services on the host, with this environment.
func (h *testHost) setServices(t serviceTable, env ...string) (stdout, stderr string, err error) {
	h.t.Helper()
	input, err := json.Marshal(t)
	if err != nil {
		h.t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, self, servicesCommand)
	c.Env = append([]string{}, env...) // not nil, which would mean that of this process
	c.Stdin = bytes.NewReader(input)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	h.do(func() { err = c.Run() })
	return out.String(), errs.String(), err
}

func (h *testHost) mustSetServices(t serviceTable) {
	h.t.Helper()
	stdout, stderr, err := h.setServices(t)
	if want := fmt.Sprintf("{\"services\":%d}\n", len(t.Ports)); err != nil || stdout != want || stderr != "" {
		h.t.Fatalf("services: %v\n%s%s", err, stdout, stderr)
	}
}

func services(ports ...servicePort) serviceTable {
	return serviceTable{Bridge: "br0", Ranges: prefixes("10.127.0.0/24", "fd00:127::/112"), Subnets: prefixes("10.77.0.0/24", "fd00:77::/64"), Ports: ports}
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}

// forwarded returns a port of a Service for each family, to a port of pods.
func forwarded(protocol string, number, target uint16, to ...*pod) []servicePort {
	a := servicePort{Service: "default/web", Address: netip.MustParseAddr(virtual4), Protocol: protocol, Port: number, Endpoints: []netip.AddrPort{}}
	b := a
	b.Address = netip.MustParseAddr(virtual6)
	for _, p := range to {
		a.Endpoints = append(a.Endpoints, netip.AddrPortFrom(netip.MustParseAddr(p.ip4), target))
		b.Endpoints = append(b.Endpoints, netip.AddrPortFrom(netip.MustParseAddr(p.ip6), target))
	}
	return []servicePort{a, b}
}

// names makes a sandbox answer connections with its name.
func (s *space) names(name, address string) {
	s.t.Helper()
	s.do(func() {
		l, err := net.Listen("tcp", address)
		if err != nil {
			s.t.Error(err)
			return
		}
		s.t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					if n, err := conn.Read(make([]byte, 100)); err == nil && n > 0 {
						fmt.Fprint(conn, name)
					}
				}()
			}
		}()
	})
}

// refused fails the test unless the connection is refused at once.
func (s *space) refused(address string) {
	s.t.Helper()
	if got, err := s.ask("tcp", address, 20*time.Second); err == nil || !strings.Contains(err.Error(), "refused") {
		s.t.Errorf("%s: %q, %v: want a refusal", address, got, err)
	}
}

// serviceHost returns a host with two attached pods, which both listen on port 8080.
func serviceHost(t *testing.T) (h *testHost, server, client *pod) {
	t.Helper()
	h = newHost(t)
	h.addBridge("br0", 77)
	server, client = h.addPod("br0", 77), h.addPod("br0", 77)
	server.add()
	client.add()
	return h, server, client
}

func TestServices(t *testing.T) {
	t.Parallel()
	h, server, client := serviceHost(t)
	server.serve("tcp", ":8080")
	server.serve("udp", server.ip4+":8080")
	server.serve("udp", "["+server.ip6+"]:8080")
	table := services(append(forwarded("tcp", 80, 8080, server), forwarded("udp", 80, 8080, server)...)...)
	for i := range table.Ports {
		table.Ports[i].NodePort = nodePort
	}
	h.mustSetServices(table)
	for range 2 { // the same table again changes nothing
		for _, network := range []string{"tcp", "udp"} {
			// The gateway's address shows that the answer came through the host.
			client.wants(network, virtual4+":80", "hi 10.77.0.1")
			client.wants(network, "["+virtual6+"]:80", "hi fd00:77::1")
			server.wants(network, virtual4+":80", "hi 10.77.0.1") // hairpin
			h.wants(network, virtual4+":80", "hi 10.77.0.1")
			h.wants(network, "["+virtual6+"]:80", "hi fd00:77::1")
			h.outside.wants(network, fmt.Sprintf("%s:%d", hostIP4, nodePort), "hi "+outsideIP4)
			h.outside.wants(network, fmt.Sprintf("[%s]:%d", hostIP6, nodePort), "hi "+outsideIP6)
			h.wants(network, fmt.Sprintf("127.0.0.1:%d", nodePort), "hi 10.77.0.1")
			client.wants(network, fmt.Sprintf("%s:%d", hostIP4, nodePort), "hi 10.77.0.1")
		}
		h.mustSetServices(table)
	}
	client.refused(virtual4 + ":81") // not a port of the Service
	client.refused(virtual4[:len(virtual4)-1] + "9:80")
	h.refused("[" + virtual6 + "]:81")

	h.mustSetServices(services(forwarded("tcp", 80, 8080)...))
	client.refused(virtual4 + ":80") // no endpoints
	client.refused("[" + virtual6 + "]:80")
	h.refused(virtual4 + ":80")
	server.wants("tcp", server.ip4+":8080", "hi "+server.ip4)

	server.del()
	client.del()
	h.mustSetServices(services())
	h.leftNothing()
	h.hasNoServiceRoute()
	h.mustSetServices(services()) // nothing to remove
}

// A pod in the host network listens on an address of the host.
func TestServiceOfHostNetwork(t *testing.T) {
	t.Parallel()
	h, _, client := serviceHost(t)
	h.serve("tcp", ":8080")
	h.mustSetServices(services(forwarded("tcp", 80, 8080, &pod{ip4: hostIP4, ip6: hostIP6})...))
	client.wants("tcp", virtual4+":80", "hi "+client.ip4)
	client.wants("tcp", "["+virtual6+"]:80", "hi "+client.ip6)
	h.wants("tcp", virtual4+":80", "hi 10.77.0.1")
}

// Without a pod, there is no bridge yet. A Service of a pod in the host network still works.
func TestServiceWithoutBridge(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.serve("tcp", ":8080")
	h.mustSetServices(services(forwarded("tcp", 80, 8080, &pod{ip4: hostIP4, ip6: hostIP6})[:1]...))
	if got, err := h.ask("tcp", virtual4+":80", 20*time.Second); err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestServiceSelectsRandomEndpoints(t *testing.T) {
	t.Parallel()
	h, a, b := serviceHost(t)
	c := h.addPod("br0", 77)
	c.add()
	for name, p := range map[string]*pod{"a": a, "b": b, "c": c} {
		p.names(name, ":8080")
	}
	h.mustSetServices(services(forwarded("tcp", 80, 8080, a, b, c)...))
	count := map[string]int{}
	for range 120 {
		got, err := h.outsideless(virtual4 + ":80")
		if err != nil {
			t.Fatal(err)
		}
		count[got]++
	}
	for _, name := range []string{"a", "b", "c"} {
		// Each has 40 on average; fewer than 15 has a probability below 1e-6.
		if count[name] < 15 {
			t.Errorf("%v: %s gets too few connections", count, name)
		}
	}
}

// outsideless asks from the host itself.
func (h *testHost) outsideless(address string) (string, error) {
	return h.ask("tcp", address, 20*time.Second)
}

func TestServiceAffinity(t *testing.T) {
	t.Parallel()
	h, a, b := serviceHost(t)
	c := h.addPod("br0", 77)
	c.add()
	for name, p := range map[string]*pod{"a": a, "b": b, "c": c} {
		p.names(name, ":8080")
	}
	sticky := func(to ...*pod) serviceTable {
		t := services(forwarded("tcp", 80, 8080, to...)...)
		for i := range t.Ports {
			t.Ports[i].Affinity = 10800
		}
		return t
	}
	h.mustSetServices(sticky(a, b))
	for _, address := range []string{virtual4 + ":80", "[" + virtual6 + "]:80"} {
		first, err := h.outsideless(address)
		if err != nil {
			t.Fatal(err)
		}
		same := func(when string) {
			t.Helper()
			for range 20 {
				if got, err := h.outsideless(address); got != first || err != nil {
					t.Fatalf("%s: %s instead of %s, %v", when, got, first, err)
				}
			}
		}
		same("without a change")
		h.mustSetServices(sticky(a, b, c))
		same("after a change of other endpoints")
		h.mustSetServices(sticky(a, b))
		gone, left := a, "b"
		if first == "b" {
			gone, left = b, "a"
		}
		h.mustSetServices(sticky(map[bool]*pod{true: a, false: b}[gone == b]))
		if got, err := h.outsideless(address); got != left || err != nil {
			t.Errorf("after the removal of the endpoint: %q, %v, want %s", got, err, left)
		}
		h.mustSetServices(sticky(a, b))
	}
}

// UDP flows have no end, so that a client that continues to send must be moved to the new endpoint.
func TestServiceMovesUDPFlows(t *testing.T) {
	t.Parallel()
	h, a, b := serviceHost(t)
	client := h.addPod("br0", 77)
	client.add()
	for _, p := range []*pod{a, b} {
		p.serve("udp", p.ip4+":8080")
	}
	h.mustSetServices(services(forwarded("udp", 80, 8080, a)...))
	var conn net.Conn
	client.do(func() {
		var err error
		if conn, err = net.Dial("udp", virtual4+":80"); err != nil {
			t.Error(err)
		}
	})
	defer conn.Close()
	ask := func() error {
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.Write([]byte("hi")); err != nil {
			return err
		}
		_, err := conn.Read(make([]byte, 100))
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	h.mustSetServices(services(forwarded("udp", 80, 8080, b)...))
	a.del()
	a.do(func() {
		if l, err := netlink.LinkByName("eth0"); err == nil {
			_ = netlink.LinkSetDown(l)
		}
	})
	if err := ask(); err != nil {
		t.Errorf("after the change of the endpoint: %v", err)
	}
}

// serviceTables returns the number of tables of Services.
func (h *testHost) serviceTables() (n int) {
	h.t.Helper()
	h.do(func() {
		c, err := conn()
		if err != nil {
			h.t.Error(err)
			return
		}
		all, err := c.ListTables()
		if err != nil {
			h.t.Error(err)
		}
		for _, table := range all {
			if table.Name == serviceTableName("br0") {
				n++
			}
		}
	})
	return n
}

// hasNoServiceRoute fails the test if a route to the virtual IPs is left.
func (h *testHost) hasNoServiceRoute() {
	h.t.Helper()
	h.do(func() {
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		if err != nil || len(routes) > 0 {
			h.t.Errorf("routes %v, %v are left", routes, err)
		}
	})
}

// GC of a network that is removed also removes its Services; DEL of its last sandbox does not.
func TestServicesAndGC(t *testing.T) {
	t.Parallel()
	h, server, client := serviceHost(t)
	h.mustSetServices(services(forwarded("tcp", 80, 8080, server)...))
	server.del()
	client.del()
	if n := h.serviceTables(); n != 2 {
		t.Errorf("%d tables after DEL, want 2", n)
	}
	h.must("GC", nil, map[string]any{"cniVersion": "1.1.0", "name": "podrun", "type": "podrun-net", "bridge": "br0", "cni.dev/valid-attachments": []any{}})
	if n := h.serviceTables(); n != 0 {
		t.Errorf("%d tables after GC, want 0", n)
	}
}

func TestParseServices(t *testing.T) {
	valid := func() serviceTable {
		return services(forwarded("tcp", 80, 8080, &pod{ip4: "10.77.0.2", ip6: "fd00:77::2"})...)
	}
	for name, change := range map[string]func(*serviceTable){
		"bridge":            func(t *serviceTable) { t.Bridge = "a/b" },
		"no bridge":         func(t *serviceTable) { t.Bridge = "" },
		"address":           func(t *serviceTable) { t.Ports[0].Address = netip.MustParseAddr("192.0.2.1") },
		"no address":        func(t *serviceTable) { t.Ports[0].Address = netip.Addr{} },
		"port":              func(t *serviceTable) { t.Ports[0].Port = 0 },
		"protocol":          func(t *serviceTable) { t.Ports[0].Protocol = "icmp" },
		"no protocol":       func(t *serviceTable) { t.Ports[0].Protocol = "" },
		"endpoint's family": func(t *serviceTable) { t.Ports[0].Endpoints = t.Ports[1].Endpoints },
		"endpoint's port":   func(t *serviceTable) { t.Ports[0].Endpoints[0] = netip.MustParseAddrPort("10.77.0.2:0") },
		"twice":             func(t *serviceTable) { t.Ports[1] = t.Ports[0] },
		"everything":        func(t *serviceTable) { t.Ranges = append(t.Ranges, netip.MustParsePrefix("0.0.0.0/0")) },
		"too many ports":    func(t *serviceTable) { t.Ports = make([]servicePort, maxServicePorts+1) },
	} {
		table := valid()
		change(&table)
		data, err := json.Marshal(table)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseServices(data); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	data, _ := json.Marshal(valid())
	if _, err := parseServices(data); err != nil {
		t.Error(err)
	}
	if _, err := parseServices([]byte("{")); err == nil {
		t.Error("{ is accepted")
	}
}
