package critest

import "net/netip"

// addresses hands out pod IPs. Its owner's lock guards it.
type addresses struct {
	ranges []netip.Prefix
	taken  map[netip.Addr]bool
}

// take books the lowest free address of each range, leaving out the network's
// own and its first, the gateway's. A range that is used up gives none.
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
