package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// TestHostPorts checks that a change of an owner's ports is complete or has no effect.
func TestHostPorts(t *testing.T) {
	i := newInstance(t)
	r := i.mustStart()
	i.inNode(r, func() {
		serveTCP(t, "tcp4", "192.0.0.2:80", "pod4 ")
		serveTCP(t, "tcp6", "[fd00:706f:6472::2]:80", "pod6 ")
		serveUDP(t, "udp4", "192.0.0.2:81", "udp4 ")
		serveUDP(t, "udp6", "[fd00:706f:6472::2]:81", "udp6 ")
	})
	taken, err := net.Listen("tcp", ":7200")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if err := writeSysctl("net/ipv4/ip_unprivileged_port_start", "1024"); err != nil {
		t.Fatal(err)
	}
	port := func(protocol, hostIP string, host int, address string, port int) string {
		return fmt.Sprintf(`{"protocol":%q,"hostIP":%q,"hostPort":%d,"address":%q,"port":%d}`, protocol, hostIP, host, address, port)
	}
	for _, c := range []struct {
		name, owner, ports, want, open string
	}{
		{"first", "a", port("tcp", "", 7100, "192.0.0.2", 80), "", "a:7100"},
		{"a taken one", "b", port("tcp", "", 7101, "192.0.0.2", 80) + "," + port("tcp", "", 7200, "192.0.0.2", 80), `"port":7200,"protocol":"tcp","errno":"EADDRINUSE"`, "a:7100"},
		{"of another owner", "b", port("tcp", "", 7100, "192.0.0.2", 80), `"errno":"EADDRINUSE"`, "a:7100"},
		{"privileged", "b", port("tcp", "", 80, "192.0.0.2", 80), `"errno":"EACCES"`, "a:7100"},
		{"SCTP", "b", port("sctp", "", 7102, "192.0.0.2", 80), `"errno":"EPROTONOSUPPORT"`, "a:7100"},
		{"an address that is not the host's", "b", port("tcp", "10.1.2.3", 7102, "192.0.0.2", 80), `"errno":"EADDRNOTAVAIL"`, "a:7100"},
		{"the same again", "a", port("tcp", "", 7100, "192.0.0.2", 80), "", "a:7100"},
		{"another destination, and a taken port", "a", port("tcp", "", 7100, "192.0.0.2", 82) + "," + port("tcp", "", 7200, "192.0.0.2", 80), `"errno":"EADDRINUSE"`, "a:7100"},
		{"another destination", "a", port("tcp", "", 7100, "192.0.0.2", 82), "", "a:7100"},
		{"the first destination", "a", port("tcp", "", 7100, "192.0.0.2", 80), "", "a:7100"},
		{"one address each", "c", port("tcp", "127.0.0.1", 7103, "192.0.0.2", 80) + "," + port("tcp", "::1", 7103, "fd00:706f:6472::2", 80), "", "a:7100 c:7103 c:7103"},
		{"UDP", "u", port("udp", "", 7100, "192.0.0.2", 81) + "," + port("udp", "::1", 7104, "fd00:706f:6472::2", 81), "", "a:7100 c:7103 c:7103 u:7100 u:7104"},
		{"loopback", "b", port("tcp", "", 7105, "127.0.0.1", 80), "invalid address", "a:7100 c:7103 c:7103 u:7100 u:7104"},
		{"no port", "b", port("tcp", "", 0, "192.0.0.2", 80), "a port is 0", "a:7100 c:7103 c:7103 u:7100 u:7104"},
		{"a name", "b", port("tcp", "localhost", 7105, "192.0.0.2", 80), "invalid host address", "a:7100 c:7103 c:7103 u:7100 u:7104"},
	} {
		got := i.send(testUser, fmt.Sprintf(`{"op":"add","owner":%q,"ports":[%s]}`, c.owner, c.ports))
		if c.want == "" && strings.Contains(got, "error") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.name, got)
		}
		if open := i.open(); open != c.open {
			t.Errorf("%s: open: %s, want %s", c.name, open, c.open)
		}
	}
	for _, c := range []struct {
		network, to string
		bytes       int
		want        string
	}{
		{"tcp", "127.0.0.1:7100", 3_000_000, "pod4 3000000"},
		{"tcp", "[::1]:7100", 1, "pod4 1"},
		{"tcp", hostIP4 + ":7100", 1, "pod4 1"},
		{"tcp", "127.0.0.1:7103", 1, "pod4 1"},
		{"tcp", "[::1]:7103", 1, "pod6 1"},
		{"tcp", hostIP4 + ":7103", 1, "refused"},
		{"udp", "127.0.0.1:7100", 30_000, "udp4 30000"},
		{"udp", hostIP4 + ":7100", 0, "udp4 0"},
		{"udp", "[::1]:7100", 5, "udp4 5"},
		{"udp", "[" + hostIP6 + "]:7100", 5, "udp4 5"},
		{"udp", "[::1]:7104", 6, "udp6 6"},
	} {
		if got := exchange(c.network, c.to, c.bytes); got != c.want && (c.want != "refused" || !strings.Contains(got, c.want)) {
			t.Errorf("%s %s: %q, want %q", c.network, c.to, got, c.want)
		}
	}
	for _, request := range []string{"", "{", `{"op":"x","owner":"a"}`, `{"op":"add"}`, `{"op":"add","owner":"a","ports":[{"hostPort":70000}]}`, strings.Repeat("[", 100_000)} {
		if got := i.send(testUser, request); !strings.Contains(got, `"error":"request: `) {
			t.Errorf("%.20q: %s", request, got)
		}
	}
	for _, owner := range []string{"a", "c", "u", "a"} {
		if got := i.send(testUser, fmt.Sprintf(`{"op":"delete","owner":%q}`, owner)); strings.Contains(got, "error") {
			t.Error(got)
		}
	}
	if got := i.open(); got != "" {
		t.Error(got)
	}
	if got := exchange("tcp", "127.0.0.1:7100", 1); !strings.Contains(got, "refused") {
		t.Error(got)
	}
}
