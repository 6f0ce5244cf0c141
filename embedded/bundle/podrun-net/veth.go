package main

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// vethPrefix is the prefix of the pairs' names in the host. NetworkManager ignores
// interfaces with this prefix.
const vethPrefix = "veth"

// vethName returns the name of an attachment's interface in the host, which has the maximum
// length (15). It identifies the attachment: DEL and GC require no record of the name.
func vethName(comment string) string {
	sum := sha256.Sum256([]byte(comment))
	return vethPrefix + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:11]
}

// isVethName reports whether vethName may have returned a name. The names that upstream's
// bridge chooses are shorter.
func isVethName(name string) bool {
	return len(name) == len(vethPrefix)+11 && strings.HasPrefix(name, vethPrefix)
}

// vethGroup returns the interface group of a network's pairs, which is set when a pair is
// created: GC also finds a pair that a killed ADD has not attached to the bridge.
func vethGroup(bridge string) uint32 {
	sum := sha256.Sum256([]byte("podrun-net group " + bridge))
	return binary.BigEndian.Uint32(sum[:4])>>1 | 1 // positive, and not the default group
}

// applyVeth creates an attachment's pair of interfaces and attaches it to the bridge. It
// returns the interface in the host.
func applyVeth(c *config, br netlink.Link, sandbox ns.NetNS, mac net.HardwareAddr, name, ifName string) (netlink.Link, error) {
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU, attributes.Flags, attributes.Group = name, c.MTU, net.FlagUp, vethGroup(c.Bridge)
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: ifName, PeerHardwareAddr: mac, PeerNamespace: netlink.NsFd(int(sandbox.Fd()))}
	fault("veth/before")
	if err := netlink.LinkAdd(pair); err != nil {
		return nil, fmt.Errorf("create the interface pair %s: %w", name, err)
	}
	fault("veth/after")
	disableRouterAdvertisements(name)
	if err := netlink.LinkSetMaster(pair, br); err != nil {
		return nil, fmt.Errorf("attach %s to the bridge %s: %w", name, c.Bridge, err)
	}
	if c.HairpinMode {
		if err := netlink.LinkSetHairpin(pair, true); err != nil {
			return nil, fmt.Errorf("set hairpin mode of %s: %w", name, err)
		}
	}
	return pair, nil
}

// applySandbox configures the interface in the sandbox, and returns its MAC address.
func applySandbox(c *config, sandbox ns.NetNS, ifName string, r *current.Result) (mac string, err error) {
	err = sandbox.Do(func(ns.NetNS) error {
		link, err := netlink.LinkByName(ifName)
		if err != nil {
			return err
		}
		mac = link.Attrs().HardwareAddr.String()
		applySandboxSysctls(c, ifName)
		for _, one := range r.IPs {
			if one.Address.IP.To4() == nil {
				for _, name := range []string{"lo", ifName} {
					if err := setSysctl("net/ipv6/conf/"+name+"/disable_ipv6", "0"); err != nil {
						return fmt.Errorf("enable IPv6 on %s: %w", name, err)
					}
				}
			}
			addr := &netlink.Addr{IPNet: &one.Address}
			if one.Address.IP.To4() == nil && !c.EnableDAD {
				addr.Flags = unix.IFA_F_NODAD
			}
			if err := netlink.AddrAdd(link, addr); err != nil {
				return fmt.Errorf("add the address %s: %w", one.Address.IP, err)
			}
		}
		// The kernel announces addresses that exist when the interface is set up.
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("set it up: %w", err)
		}
		for _, route := range r.Routes {
			if err := netlink.RouteAddEcmp(routeOf(route, r.IPs, link.Attrs().Index)); err != nil {
				return fmt.Errorf("add the route to %s: %w", route.Dst.String(), err)
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("configure %s in the sandbox: %w", ifName, err)
	}
	return mac, nil
}

// applySandboxSysctls ignores errors, as upstream's bridge does: the kernel may not support
// IPv6, and older kernels lack some of the sysctls.
func applySandboxSysctls(c *config, ifName string) {
	dad := "0"
	if c.EnableDAD {
		dad = "1"
		_ = setSysctl("net/ipv6/conf/"+ifName+"/enhanced_dad", "1")
	}
	_ = setSysctl("net/ipv6/conf/"+ifName+"/accept_dad", dad)
	_ = setSysctl("net/ipv6/conf/"+ifName+"/keep_addr_on_down", "1")
	_ = setSysctl("net/ipv6/conf/"+ifName+"/ndisc_notify", "1")
	_ = setSysctl("net/ipv4/conf/"+ifName+"/arp_notify", "1")
}

func defaultRoute(v4 bool, gateway net.IP) *types.Route {
	zero := net.IPv6zero
	if v4 {
		zero = net.IPv4zero
	}
	return &types.Route{Dst: net.IPNet{IP: zero, Mask: net.IPMask(zero)}, GW: gateway}
}

// routeOf converts a route of a result. Its gateway is by default that of the first address
// of the same family.
func routeOf(r *types.Route, ips []*current.IPConfig, link int) *netlink.Route {
	out := &netlink.Route{Dst: &r.Dst, LinkIndex: link, Gw: r.GW, Priority: r.Priority, MTU: r.MTU, AdvMSS: r.AdvMSS}
	for _, one := range ips {
		if out.Gw == nil && one.Gateway != nil && (one.Gateway.To4() == nil) == (r.Dst.IP.To4() == nil) {
			out.Gw = one.Gateway
		}
	}
	if r.Table != nil {
		out.Table = *r.Table
	}
	if r.Scope != nil {
		out.Scope = netlink.Scope(*r.Scope)
	}
	return out
}

// portLimit limits the wait for a port of the bridge. The kernel sets the port up in a work
// queue.
const portLimit = 10 * time.Second

// watchPort starts to watch the host's interfaces. await waits until an interface is up, because before that, the
// bridge forwards no packets of the sandbox.
func watchPort() (await func(link netlink.Link) (netlink.Link, error), end func(), err error) {
	updates, done := make(chan netlink.LinkUpdate, 64), make(chan struct{})
	if err := netlink.LinkSubscribe(updates, done); err != nil {
		return nil, nil, fmt.Errorf("watch interfaces: %w", err)
	}
	await = func(link netlink.Link) (netlink.Link, error) {
		ctx, cancel := context.WithTimeout(context.Background(), portLimit)
		defer cancel()
		for {
			now, err := netlink.LinkByIndex(link.Attrs().Index)
			if err != nil {
				return nil, fmt.Errorf("read the interface %s: %w", link.Attrs().Name, err)
			}
			if now.Attrs().OperState == netlink.OperUp {
				return now, nil
			}
			if err := nextUpdate(ctx, updates, link.Attrs().Index); err != nil {
				return nil, fmt.Errorf("the interface %s of the bridge is %s: %w", link.Attrs().Name, now.Attrs().OperState, err)
			}
		}
	}
	return await, func() { close(done) }, nil
}

// nextUpdate waits for a message about a link.
func nextUpdate(ctx context.Context, updates <-chan netlink.LinkUpdate, index int) error {
	for {
		select {
		case u, ok := <-updates:
			if !ok {
				return errors.New("the kernel dropped messages about interfaces, because this host is overloaded")
			}
			if int(u.Index) == index {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("not up after %s", portLimit)
		}
	}
}

// removeVeth removes an attachment's pair by its name in the host, or else the interface in
// the sandbox: upstream's bridge chose random names. Both may be missing. When one
// end of the pair is deleted, the kernel deletes the other.
func removeVeth(comment, netns, ifName string) error {
	link, err := netlink.LinkByName(vethName(comment))
	if err == nil {
		fault("unlink/before")
		if err := deleteLink(link); err != nil {
			return err
		}
		fault("unlink/after")
		return nil
	}
	if _, missing := err.(netlink.LinkNotFoundError); !missing {
		return fmt.Errorf("read the interface %s: %w", vethName(comment), err)
	}
	if netns == "" {
		return nil
	}
	err = ns.WithNetNSPath(netns, func(ns.NetNS) error {
		link, err := netlink.LinkByName(ifName)
		if _, missing := err.(netlink.LinkNotFoundError); missing {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the interface %s of the sandbox: %w", ifName, err)
		}
		return deleteLink(link)
	})
	var notExist ns.NSPathNotExistErr
	var notNS ns.NSPathNotNSErr
	if errors.As(err, &notExist) || errors.As(err, &notNS) {
		return nil // the kernel has removed the pair together with the namespace
	}
	return err
}

// deleteLink deletes a link that another process may delete at the same time.
func deleteLink(link netlink.Link) error {
	err := netlink.LinkDel(link)
	if err == nil || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf("remove the interface %s: %w", link.Attrs().Name, err)
}
