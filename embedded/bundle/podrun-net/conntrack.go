package main

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hostNetworks returns the networks whose addresses belong to the host, as the rules match them (local):
// those of the kernel's local routes. Other addresses are not the host's, even if their port is a host
// port or a node port.
func hostNetworks() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		routes, err := netlinksafe.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_TYPE)
		if err != nil && family == netlink.FAMILY_V4 {
			return nil, err
		}
		for _, r := range routes {
			if r.Dst == nil {
				continue
			}
			ones, _ := r.Dst.Mask.Size()
			if addr := addressOf(r.Dst.IP); addr.IsValid() {
				out = append(out, netip.PrefixFrom(addr, ones).Masked())
			}
		}
	}
	return out, nil
}

// addressOf returns an address of netlink, without the form of IPv4 addresses in IPv6.
func addressOf(ip net.IP) netip.Addr {
	addr, _ := netip.AddrFromSlice(ip)
	return addr.Unmap()
}

// ofHost reports whether one of the networks contains the address.
func ofHost(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// staleHostPorts matches UDP flows from outside to the host ports of a sandbox.
type staleHostPorts struct {
	ports []port
	host  []netip.Prefix // hostNetworks
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (s staleHostPorts) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	to := addressOf(flow.Forward.DstIP)
	return ofHost(s.host, to) && slices.ContainsFunc(s.ports, func(p port) bool {
		any := !p.hostIP.IsValid() || p.hostIP.IsUnspecified()
		return p.protocol == unix.IPPROTO_UDP && p.host == flow.Forward.DstPort && (any || p.hostIP == to)
	})
}

// removeStale deletes the kernel's UDP flows to an attachment's host ports. Otherwise, if a
// client continues to send to an earlier sandbox, its packets would never reach the new one.
// Like upstream's portmap, it ignores errors, because the kernel may lack the interface
// (nf_conntrack_netlink).
func removeStale(a attachment) {
	for _, f := range families {
		ports := a.portsOf(f)
		if !a.address(f).IsValid() || !slices.ContainsFunc(ports, func(p port) bool { return p.protocol == unix.IPPROTO_UDP }) {
			continue
		}
		host, err := hostNetworks()
		if err == nil {
			inet := netlink.InetFamily(unix.AF_INET)
			if f.bits == 128 {
				inet = unix.AF_INET6
			}
			_, err = netlink.ConntrackDeleteFilters(netlink.ConntrackTable, inet, staleHostPorts{ports, host})
		}
		if err != nil {
			warn("delete the connection tracking entries of UDP host ports of %s: %v: UDP clients of a previous sandbox may not reach this one for some minutes", a.comment, err)
		}
	}
}

// staleService matches UDP flows to virtual IPs and node ports that were translated to an address
// that is no longer an endpoint of the Service. If they were not deleted, a client that keeps
// sending would never reach a new pod.
type staleService struct {
	ports []servicePort
	host  []netip.Prefix // hostNetworks
}

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (s staleService) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	to, at := addressOf(flow.Forward.DstIP), addressOf(flow.Reverse.SrcIP)
	for _, p := range s.ports {
		virtual := to == p.Address && flow.Forward.DstPort == p.Port
		node := p.NodePort > 0 && flow.Forward.DstPort == p.NodePort && to.BitLen() == p.Address.BitLen() && ofHost(s.host, to)
		if p.Protocol == "udp" && (virtual || node) {
			return !slices.ContainsFunc(p.Endpoints, func(e netip.AddrPort) bool { return e.Addr() == at })
		}
	}
	return false
}

// removeStaleServices ignores errors, as removeStale does.
func removeStaleServices(t *serviceTable) {
	if !slices.ContainsFunc(t.Ports, func(p servicePort) bool { return p.Protocol == "udp" }) {
		return
	}
	host, err := hostNetworks()
	if err != nil {
		warn("read the addresses of the host: %v: UDP clients of a node port may not reach a new endpoint for some minutes", err)
	}
	for _, inet := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
		if _, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, inet, staleService{t.Ports, host}); err != nil && !strings.Contains(err.Error(), "not supported") {
			warn("delete the connection tracking entries of UDP Services: %v: UDP clients of a previous endpoint may not reach a new one for some minutes", err)
		}
	}
}
