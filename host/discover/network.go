package discover

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/netdump"
)

// resolvedStub is the address of systemd-resolved, which a pod cannot reach. resolvedFile
// contains the real servers. (kubeadm makes the kubelet use this file, too.)
const (
	resolvedStub = "127.0.0.53"
	resolvedFile = "run/systemd/resolve/resolv.conf"
	resolvConf   = "/etc/resolv.conf"
)

// readNetwork reads the node's addresses, its resolver and /etc/hosts.
func (m machine) readNetwork(f *host.Facts, s nodeconfig.Settings) error {
	var err error
	if f.NodeIPs, f.DefaultRoute, err = nodeAddresses(s.NodeIP); err != nil {
		return err
	}
	if f.ResolvConf, err = m.readResolvConf(s.ResolvConf); err != nil {
		return err
	}
	if f.User = m.readUser(); f.User != nil && s.ResolvConf != resolvConf {
		f.User.Resolvers = nil // podrun-rootless forwards to the servers in /etc/resolv.conf
	}
	hosts, err := m.read(maxConfig, "etc/hosts")
	if err != nil && !os.IsNotExist(err) {
		return factError("read /etc/hosts", err, "")
	}
	f.EtcHosts = string(hosts)
	return nil
}

// nodeAddresses returns the node's IPs and the link of its default route. Configured addresses take
// precedence. If none is configured, nodeAddresses returns one address, like the kubelet. It is the
// address of the default route's link, IPv4 before IPv6. If there is none, it is the first global
// unicast address of the host, or else 127.0.0.1. (The kubelet first tries the addresses of the
// hostname. On a single host, these are often 127.0.1.1, or come from a stale DNS record.)
func nodeAddresses(addresses []string) ([]string, string, error) {
	link, addr, err := defaultRoute()
	if err != nil {
		return nil, "", factError("read the routes", err, "")
	}
	ips, err := parseNodeIPs(addresses)
	if err != nil {
		return nil, "", err
	}
	switch {
	case len(ips) > 0:
		return ips, link, nil
	case addr != "":
		return []string{addr}, link, nil
	}
	if addr, err = firstGlobal(); err != nil {
		return nil, "", factError("read the addresses", err, "")
	}
	if addr == "" {
		addr = "127.0.0.1"
	}
	return []string{addr}, link, nil
}

// parseNodeIPs validates --node-ip, which has at most one address of each family. It drops an
// unspecified address (0.0.0.0, ::): as in the kubelet, this means the default.
func parseNodeIPs(addresses []string) ([]string, error) {
	var out []string
	var v4, v6 bool
	for _, t := range addresses {
		ip := net.ParseIP(strings.TrimSpace(t))
		if ip == nil {
			return nil, factError("read --node-ip", fmt.Errorf("%q is not an IP address", t), "use an address such as 192.0.2.7")
		}
		if ip.IsUnspecified() {
			continue
		}
		is4 := ip.To4() != nil
		if is4 && v4 || !is4 && v6 {
			return nil, factError("read --node-ip", fmt.Errorf("%v: two addresses of one family", addresses), "set at most one IPv4 and one IPv6 address")
		}
		v4, v6 = v4 || is4, v6 || !is4
		out = append(out, ip.String())
	}
	return out, nil
}

// defaultRoute finds the default route with the lowest metric, and returns the route's link and
// the link's address. If there is no default route, both are empty.
func defaultRoute() (link, addr string, err error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		filter := &netlink.Route{Table: unix.RT_TABLE_MAIN}
		routes, err := netdump.Repeat(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, filter, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
		})
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			return "", "", err
		}
		slices.SortStableFunc(routes, func(a, b netlink.Route) int { return a.Priority - b.Priority })
		for _, r := range routes {
			l, err := netlink.LinkByIndex(routeLink(r))
			if err != nil {
				// The route has no link, because it is an unreachable route, or because the link was removed.
				continue
			}
			if link == "" {
				link = l.Attrs().Name
			}
			if addr, err = global(l, family); err != nil {
				return "", "", err
			}
			if addr != "" {
				return link, addr, nil
			}
		}
	}
	return link, "", nil
}

// routeLink returns the index of the route's link. For a multipath route, it is the link of the
// first hop.
func routeLink(r netlink.Route) int {
	if r.LinkIndex == 0 && len(r.MultiPath) > 0 {
		return r.MultiPath[0].LinkIndex
	}
	return r.LinkIndex
}

// firstGlobal returns the first global unicast address of any link, IPv4 first.
func firstGlobal() (string, error) {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		if addr, err := global(nil, family); err != nil || addr != "" {
			return addr, err
		}
	}
	return "", nil
}

// global returns the first global unicast address of a link. If l is nil, it considers all
// links.
func global(l netlink.Link, family int) (string, error) {
	addrs, err := netdump.Repeat(func() ([]netlink.Addr, error) { return netlink.AddrList(l, family) })
	if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return "", err
	}
	for _, a := range addrs {
		usable := a.Flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED|unix.IFA_F_DEPRECATED) == 0
		if usable && a.Scope == unix.RT_SCOPE_UNIVERSE && a.IP.IsGlobalUnicast() {
			return a.IP.String(), nil
		}
	}
	return "", nil
}
