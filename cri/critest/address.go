package critest

import "net/netip"

// addresses allocates pod IPs. The runtime's lock protects it.
type addresses struct {
	ranges []netip.Prefix
	taken  map[netip.Addr]bool
}

// take allocates the lowest free address of each range. It allocates neither the network address
// nor the first address, which belongs to the gateway. If a range has no free address, take
// allocates none from it.
func (a *addresses) take() []netip.Addr {
	var got []netip.Addr
	for _, r := range a.ranges {
		ip := r.Masked().Addr().Next().Next()
		for a.taken[ip] {
			ip = ip.Next()
		}
		if !r.Contains(ip) {
			continue
		}
		a.taken[ip] = true
		got = append(got, ip)
	}
	return got
}

func (a *addresses) free(ips []netip.Addr) {
	for _, ip := range ips {
		delete(a.taken, ip)
	}
}
