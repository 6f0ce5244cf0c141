package embedded

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/cniplugin"
	"github.com/podrun/podrun/internal/hostfile"
	"github.com/podrun/podrun/internal/netdump"
	"github.com/podrun/podrun/internal/podnetns"
)

// writeNetwork writes the configuration of the pod network for an unpacked archive.
func writeNetwork(ctx context.Context, l Layout, o StartOptions) error {
	have, err := hostfile.ReadNoFollow(ctx, l.NetworkFile(), maxRecord)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	chained := isChained(l, o.Digest)
	in := SubnetInput{ID: l.ID(), Wanted: o.PodCIDR, Have: subnetsOf(have), IPv6: readIPv6(l.Bridge())}
	if in.Used, err = readUsed(l.Bridge()); err != nil {
		return err
	}
	in.BridgeExists = linkIndex(l.Bridge()) >= 0
	if chained { // that release's plugin would disable the host's IPv6 routes
		in.IPv6 = min(in.IPv6, IPv6Unused)
	}
	subnets, err := Subnets(in)
	if err != nil {
		return err
	}
	want, err := Network(l, subnets, chained, cniplugin.Namespace())
	if err != nil || bytes.Equal(have, want) {
		return err
	}
	// IPv6 was added for a host that uses it. The kernel may nevertheless lack a feature that
	// IPv6 rules require, and IPv4 has to work without it.
	if len(in.Wanted) == 0 && len(subnets) == 2 && !slices.Contains(in.Have, subnets[1]) {
		if err := callPlugin(ctx, l, o.Digest, "STATUS", want); err != nil {
			if want, err = Network(l, subnets[:1], chained, cniplugin.Namespace()); err != nil || bytes.Equal(have, want) {
				return err
			}
		}
	}
	return hostfile.Write(l.NetworkFile(), want, 0o640)
}

// isChained reports whether an unpacked archive is of a release with a chain of plugins.
func isChained(l Layout, digest string) bool {
	_, err := os.Stat(filepath.Join(l.Unpacked(digest), "cni", "host-local"))
	return err == nil
}

// callPlugin calls the network plugin of an unpacked archive with the only plugin of a
// configuration that Network returned.
func callPlugin(ctx context.Context, l Layout, digest, command string, network []byte) error {
	config, err := pluginOf(network)
	if err != nil {
		return err
	}
	stdin, err := json.Marshal(config)
	if err != nil {
		return err
	}
	return cniplugin.Exec(ctx, filepath.Join(l.Unpacked(digest), "cni", cniplugin.Own), command, stdin)
}

// pluginOf returns the configuration of the only plugin of a network, as a runtime passes it to the plugin.
func pluginOf(network []byte) (map[string]any, error) {
	var c conflist
	if err := json.Unmarshal(network, &c); err != nil {
		return nil, err
	}
	if len(c.Plugins) == 0 {
		return nil, errors.New("the network has no plugin")
	}
	c.Plugins[0]["name"], c.Plugins[0]["cniVersion"] = c.Name, "1.1.0"
	return c.Plugins[0], nil
}

// readIPv6 determines the state of IPv6 on this host. It ignores one link: the pods' bridge.
func readIPv6(except string) IPv6State {
	disabled, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	if err != nil || strings.TrimSpace(string(disabled)) != "0" {
		return IPv6Off
	}
	skip := -1 // the bridge is in another namespace than these routes
	if !podnetns.Separate() {
		skip = linkIndex(except)
	}
	routes, err := netdump.Repeat(func() ([]netlink.Route, error) { return netlink.RouteList(nil, netlink.FAMILY_V6) })
	if err != nil {
		return IPv6Off
	}
	for _, r := range routes {
		ones := 0
		if r.Dst != nil {
			ones, _ = r.Dst.Mask.Size()
		}
		if ones == 0 && r.Type == unix.RTN_UNICAST && r.LinkIndex != skip {
			return IPv6Used
		}
	}
	addresses, err := netdump.Repeat(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V6) })
	if err == nil && slices.ContainsFunc(addresses, func(a netlink.Addr) bool { return a.LinkIndex != skip && isPublic(a.IP) }) {
		return IPv6Used
	}
	return IPv6Unused
}

// isPublic reports whether an address is reachable from other networks. Unique local ones
// are not: container engines give them to their bridges.
func isPublic(ip net.IP) bool { return ip.IsGlobalUnicast() && !ip.IsPrivate() }

// ReadSubnets returns the pod subnets; none if there is no pod network yet.
func ReadSubnets(ctx context.Context, l Layout) ([]netip.Prefix, error) {
	data, err := hostfile.ReadNoFollow(ctx, l.NetworkFile(), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return subnetsOf(data), err
}

// ReadNetworkPlugin returns the path of the network plugin of a digest, if the network
// consists of this plugin; "" if it is a chain, as in earlier releases.
func ReadNetworkPlugin(l Layout, digest string) string {
	path := filepath.Join(l.Unpacked(digest), "cni", cniplugin.Own)
	if _, err := os.Stat(path); err != nil || isChained(l, digest) {
		return ""
	}
	return path
}
