package main

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// udpFlow returns a UDP flow to an address, which was translated to another one.
func udpFlow(to string, port uint16, at string) *netlink.ConntrackFlow {
	parse := func(text string) net.IP { return netip.MustParseAddr(text).AsSlice() } // 4 bytes for IPv4, as the kernel requires
	client := parse("192.0.2.77")
	if strings.Contains(to, ":") {
		client = parse("2001:db8::77")
	}
	f := &netlink.ConntrackFlow{FamilyType: unix.AF_INET, TimeOut: 100}
	if strings.Contains(to, ":") {
		f.FamilyType = unix.AF_INET6
	}
	f.Forward = netlink.IPTuple{SrcIP: client, DstIP: parse(to), SrcPort: 4000, DstPort: port, Protocol: unix.IPPROTO_UDP}
	f.Reverse = netlink.IPTuple{SrcIP: parse(at), DstIP: client, SrcPort: port, DstPort: 4000, Protocol: unix.IPPROTO_UDP}
	return f
}

// TestStaleFlows checks that podrun-net deletes only flows to the addresses of the host, and to
// virtual IPs, not every flow whose port is a node port or a host port: a DNS query of another machine
// that this host routes is not podrun's.
func TestStaleFlows(t *testing.T) {
	host := prefixes("10.0.0.5/32", "127.0.0.0/8", "2001:db8::5/128")
	endpoint := netip.MustParseAddrPort("10.77.0.2:53")
	s := staleService{[]servicePort{{Address: netip.MustParseAddr("10.127.0.7"), Protocol: "udp", Port: 53, NodePort: 30053, Endpoints: []netip.AddrPort{endpoint}},
		{Address: netip.MustParseAddr("fd00:127::7"), Protocol: "udp", Port: 53, NodePort: 30053}, {Address: netip.MustParseAddr("10.127.0.8"), Protocol: "tcp", Port: 80, NodePort: 30080}}, host}
	p := staleHostPorts{[]port{{protocol: unix.IPPROTO_UDP, host: 5353}, {protocol: unix.IPPROTO_UDP, host: 5354, hostIP: netip.MustParseAddr("10.0.0.5")},
		{protocol: unix.IPPROTO_UDP, host: 5355, hostIP: netip.MustParseAddr("0.0.0.0")}, {protocol: unix.IPPROTO_TCP, host: 80}}, host}
	for name, c := range map[string]struct {
		filter netlink.CustomConntrackFilter
		flow   *netlink.ConntrackFlow
		want   bool
	}{
		"node port of the host":          {s, udpFlow("10.0.0.5", 30053, "10.77.0.9"), true},
		"node port on loopback":          {s, udpFlow("127.0.0.3", 30053, "10.77.0.9"), true},
		"node port, IPv6":                {s, udpFlow("2001:db8::5", 30053, "fd00:77::9"), true},
		"node port of the host, current": {s, udpFlow("10.0.0.5", 30053, "10.77.0.2"), false},
		"the port of another machine":    {s, udpFlow("198.51.100.1", 30053, "198.51.100.1"), false},
		"of another machine, IPv6":       {s, udpFlow("2001:db8::6", 30053, "2001:db8::6"), false},
		"the port of a pod":              {s, udpFlow("10.77.0.9", 30053, "10.77.0.9"), false},
		"virtual IP":                     {s, udpFlow("10.127.0.7", 53, "10.77.0.9"), true},
		"virtual IP, node port":          {s, udpFlow("10.127.0.7", 30053, "10.77.0.9"), false},
		"a TCP Service's port":           {s, udpFlow("10.0.0.5", 30080, "10.0.0.5"), false},
		"host port":                      {p, udpFlow("10.0.0.5", 5353, "10.77.0.9"), true},
		"host port of another machine":   {p, udpFlow("198.51.100.1", 5353, "198.51.100.1"), false},
		"host port of an address":        {p, udpFlow("10.0.0.5", 5354, "10.77.0.9"), true},
		"of another address of the host": {p, udpFlow("127.0.0.1", 5354, "10.77.0.9"), false},
		"host port of any address":       {p, udpFlow("127.0.0.1", 5355, "10.77.0.9"), true},
		"a TCP host port":                {p, udpFlow("10.0.0.5", 80, "10.77.0.9"), false},
	} {
		if got := c.filter.MatchConntrackFlow(c.flow); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestForeignFlowsRemain checks in the kernel's table that setting Services and adding a sandbox with
// host ports keep the flows of other machines.
func TestForeignFlowsRemain(t *testing.T) {
	t.Parallel()
	h, a, _ := serviceHost(t)
	flows := map[string]*netlink.ConntrackFlow{"host": udpFlow(hostIP4, nodePort, "10.77.0.200"), "host, IPv6": udpFlow(hostIP6, nodePort, "fd00:77::200"),
		"other": udpFlow("198.51.100.1", nodePort, "198.51.100.1"), "other, IPv6": udpFlow("2001:db8::6", nodePort, "2001:db8::6")}
	h.do(func() {
		for name, f := range flows {
			if err := netlink.ConntrackCreate(netlink.ConntrackTable, netlink.InetFamily(f.FamilyType), f); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	table := services(forwarded("udp", 80, 8080, a)...)
	for i := range table.Ports {
		table.Ports[i].NodePort = nodePort
	}
	h.mustSetServices(table)
	var left []string
	h.do(func() {
		for _, inet := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			all, err := netlink.ConntrackTableList(netlink.ConntrackTable, inet)
			if err != nil {
				t.Error(err)
			}
			for _, f := range all {
				if f.Forward.DstPort == nodePort {
					left = append(left, f.Forward.DstIP.String())
				}
			}
		}
	})
	slices.Sort(left)
	if want := []string{"198.51.100.1", "2001:db8::6"}; !slices.Equal(left, want) {
		t.Errorf("the flows to %v are left, want %v", left, want)
	}
}
