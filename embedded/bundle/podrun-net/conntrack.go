package main

import (
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// removeStale deletes the kernel's UDP flows to an attachment's host ports. Otherwise, if a
// client continues to send to an earlier sandbox, its packets would never reach the new one.
// Like upstream's portmap, it ignores errors, because the kernel may lack the interface
// (nf_conntrack_netlink).
func removeStale(a attachment) {
	for _, f := range families {
		if !a.address(f).IsValid() {
			continue
		}
		var filters []netlink.CustomConntrackFilter
		for _, p := range a.portsOf(f) {
			if p.protocol != unix.IPPROTO_UDP {
				continue
			}
			filter := &netlink.ConntrackFilter{}
			if filter.AddProtocol(p.protocol) == nil && filter.AddPort(netlink.ConntrackOrigDstPort, p.host) == nil {
				filters = append(filters, filter)
			}
		}
		if len(filters) == 0 {
			continue
		}
		inet := netlink.InetFamily(unix.AF_INET)
		if f.bits == 128 {
			inet = unix.AF_INET6
		}
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, inet, filters...); err != nil {
			warn("delete the connection tracking entries of UDP host ports of %s: %v: UDP clients of a previous sandbox may not reach this one for some minutes", a.comment, err)
		}
	}
}
