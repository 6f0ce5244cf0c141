package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/containernetworking/plugins/pkg/ip"
	"github.com/containernetworking/plugins/pkg/netlinksafe"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	current "github.com/containernetworking/cni/pkg/types/100"
)

// bridgeMAC returns the MAC address of a bridge. Without a fixed one, the kernel would use
// the lowest address of the bridge's ports, which changes when pods come and go.
func bridgeMAC(name string) net.HardwareAddr {
	sum := sha256.Sum256([]byte("podrun-net bridge " + name))
	return append(net.HardwareAddr{0x02}, sum[:5]...) // locally administered, unicast
}

// applyBridge creates the bridge, unless it exists, and sets it up.
func applyBridge(c *config) (netlink.Link, error) {
	br, err := readBridge(c.Bridge)
	if _, missing := err.(netlink.LinkNotFoundError); missing {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.MTU, attributes.HardwareAddr = c.Bridge, c.MTU, bridgeMAC(c.Bridge)
		fault("bridge/before")
		if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, fmt.Errorf("create the bridge %s: %w", c.Bridge, err)
		}
		fault("bridge/after")
		br, err = readBridge(c.Bridge) // this process or a concurrent one created it
	}
	if err != nil {
		return nil, err
	}
	// A pod must not be able to add routes to the host.
	disableRouterAdvertisements(c.Bridge)
	if br.Attrs().Flags&net.FlagUp == 0 {
		if err := netlink.LinkSetUp(br); err != nil {
			return nil, fmt.Errorf("set up the bridge %s: %w", c.Bridge, err)
		}
	}
	return br, nil
}

// readBridge returns the bridge; a LinkNotFoundError if there is no interface of this name.
func readBridge(name string) (netlink.Link, error) {
	br, err := netlink.LinkByName(name)
	if err != nil {
		if _, missing := err.(netlink.LinkNotFoundError); missing {
			return nil, err
		}
		return nil, fmt.Errorf("read the bridge %s: %w", name, err)
	}
	if br.Type() != "bridge" {
		return nil, fmt.Errorf("the interface %s is a %s, not a bridge: remove it, or set another bridge", name, br.Type())
	}
	return br, nil
}

// disableRouterAdvertisements ignores errors, because the kernel may not support IPv6.
func disableRouterAdvertisements(link string) {
	_ = setSysctl("net/ipv6/conf/"+link+"/accept_ra", "0")
}

// applyGateways gives the bridge the gateway addresses of a result. An address of another
// subnet is replaced only with forceAddress, as in upstream's bridge.
func applyGateways(c *config, br netlink.Link, ips []*current.IPConfig) error {
	if !c.IsGateway {
		return nil
	}
	for _, one := range ips {
		family := netlink.FAMILY_V4
		if one.Gateway.To4() == nil {
			family = netlink.FAMILY_V6
			if err := setSysctl("net/ipv6/conf/"+c.Bridge+"/disable_ipv6", "0"); err != nil {
				return fmt.Errorf("enable IPv6 on the bridge %s: %w", c.Bridge, err)
			}
		}
		want := &net.IPNet{IP: one.Gateway, Mask: one.Address.Mask}
		have, err := netlinksafe.AddrList(br, family)
		if err != nil {
			return fmt.Errorf("list the addresses of the bridge %s: %w", c.Bridge, err)
		}
		if slices.ContainsFunc(have, func(a netlink.Addr) bool { return a.IPNet.String() == want.String() }) {
			continue
		}
		for _, a := range have {
			if family == netlink.FAMILY_V6 && !a.Contains(want.IP) && !want.Contains(a.IP) {
				continue
			}
			if !c.ForceAddress {
				return fmt.Errorf("the bridge %s has the address %s instead of %s: remove it, or set forceAddress", c.Bridge, a.IPNet, want)
			}
			if err := netlink.AddrDel(br, &netlink.Addr{IPNet: a.IPNet}); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
				return fmt.Errorf("remove the address %s of the bridge %s: %w", a.IPNet, c.Bridge, err)
			}
		}
		// Pods that start at once cannot wait until the kernel has checked for duplicates.
		if err := netlink.AddrAdd(br, &netlink.Addr{IPNet: want, Flags: noDAD(family)}); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add the address %s to the bridge %s: %w", want, c.Bridge, err)
		}
		// A bridge that another program created may still use the address of a port.
		if err := netlink.LinkSetHardwareAddr(br, br.Attrs().HardwareAddr); err != nil {
			return fmt.Errorf("set the MAC address of the bridge %s: %w", c.Bridge, err)
		}
	}
	return nil
}

// noDAD returns the flag of an address that is used without detection of duplicates.
func noDAD(family int) int {
	if family == netlink.FAMILY_V6 {
		return unix.IFA_F_NODAD
	}
	return 0
}

// complete sets the gateways and the routes of a result as upstream's bridge does.
func complete(c *config, r *current.Result) {
	defaults := map[bool]bool{}
	for _, route := range r.Routes {
		if ones, _ := route.Dst.Mask.Size(); ones == 0 && route.GW != nil {
			defaults[route.Dst.IP.To4() != nil] = true
		}
	}
	for _, one := range r.IPs {
		v4 := one.Address.IP.To4() != nil
		one.Interface = current.Int(2)
		if one.Gateway == nil && c.IsGateway {
			one.Gateway = ip.NextIP(one.Address.IP.Mask(one.Address.Mask))
		}
		if !c.IsDefaultGateway || defaults[v4] {
			continue
		}
		defaults[v4] = true
		r.Routes = append(r.Routes, defaultRoute(v4, one.Gateway))
	}
}

// setSysctl writes a value, unless the sysctl has it already, because /proc/sys may be
// read-only.
func setSysctl(name, value string) error {
	path := "/proc/sys/" + name
	if have, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(have)) == value {
		return nil
	}
	return os.WriteFile(path, []byte(value), 0)
}
