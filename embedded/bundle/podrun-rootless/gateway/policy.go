package gateway

import "net/netip"

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8") // Linux connects to itself
	broadcast   = netip.MustParseAddr("255.255.255.255")
	// An IPv6 address with an IPv4 address in it, to which the kernel connects by IPv4.
	mapped, compatible = netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("::/96")
)

// metadata are the addresses of the metadata services that serve credentials of the machine. The
// first one is that of most clouds, the second one that of AWS for IPv6.
var metadata = []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254")}

// refused reports whether pods must not reach an address through the gateway: services of the host
// that listen on loopback addresses only trust their clients, and a pod of a root runtime cannot
// reach them either.
func refused(a netip.Addr, allowMetadata bool) bool {
	for _, m := range metadata {
		if a == m {
			return !allowMetadata
		}
	}
	return a.IsLoopback() || a.IsUnspecified() || a.IsMulticast() || a.IsLinkLocalUnicast() || a == broadcast ||
		thisNetwork.Contains(a) || a.Is4In6() || mapped.Contains(a) || compatible.Contains(a) ||
		Node4.Masked().Contains(a) || Node6.Masked().Contains(a)
}
