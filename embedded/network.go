package embedded

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// pools are the private networks (RFC 1918) whose /24 networks are used as pod subnets,
// in order of preference: a host with a route to all of 10.0.0.0/8 uses one of the
// others.
var pools = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/10"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")}

const subnetBits = 24

// netPlugin is the CNI plugin in the archive that forwards host ports and masquerades.
const netPlugin = "podrun-net"

// Subnet returns a pod subnet that overlaps none of the used networks: the host's routes
// and addresses. The first candidate depends on the ID, so that the runtimes of two root
// directories choose different subnets even if neither has a pod yet. Subnet is
// deterministic. It returns an error if all subnets overlap.
func Subnet(id string, used []netip.Prefix) (netip.Prefix, error) {
	start, err := strconv.ParseUint(id, 16, 32)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("ID %q is not a hexadecimal number", id)
	}
	for _, pool := range pools {
		count := uint32(1) << (subnetBits - pool.Bits())
		base := pool.Addr().As4()
		for i := range count {
			n := (uint32(start) + i) % count
			at := uint32(base[0])<<24 | uint32(base[1])<<16 + n<<8
			candidate := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(at >> 24), byte(at >> 16), byte(at >> 8), 0}), subnetBits)
			if len(overlapping(candidate, used)) == 0 {
				return candidate, nil
			}
		}
	}
	return netip.Prefix{}, fmt.Errorf("every /%d subnet in %v overlaps one of this host's routes or addresses", subnetBits, pools)
}

// overlapping returns the used networks that overlap p, except the default route, which
// overlaps everything.
func overlapping(p netip.Prefix, used []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, u := range used {
		if u.Bits() > 0 && u.Overlaps(p) && !slices.Contains(out, u) {
			out = append(out, u)
		}
	}
	return out
}

// conflist is the part of a network configuration list that podrun writes.
type conflist struct {
	CNIVersion string           `json:"cniVersion"`
	Name       string           `json:"name"`
	Plugins    []map[string]any `json:"plugins"`
}

// Network returns the CNI configuration of a layout's pods. The bridge's ipMasq and
// upstream's portmap execute iptables or nft, which a host may lack; podrun-net replaces
// both. hairpinMode lets a pod reach its own hostPort.
func Network(l Layout, subnet netip.Prefix) ([]byte, error) {
	c := conflist{CNIVersion: "1.0.0", Name: l.Bridge(), Plugins: []map[string]any{
		{
			"type": "bridge", "bridge": l.Bridge(), "isDefaultGateway": true, "hairpinMode": true,
			"ipam": map[string]any{"type": "host-local", "dataDir": l.Addresses(), "ranges": [][]map[string]string{{{"subnet": subnet.String()}}}},
		},
		{"type": netPlugin, "bridge": l.Bridge(), "capabilities": map[string]bool{"portMappings": true}},
	}}
	data, err := json.MarshalIndent(c, "", "  ")
	return append(data, '\n'), err
}

// subnetOf returns the subnet in a configuration that Network wrote.
func subnetOf(data []byte) (netip.Prefix, bool) {
	var c struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet string }
			}
		}
	}
	if json.Unmarshal(data, &c) != nil || len(c.Plugins) == 0 {
		return netip.Prefix{}, false
	}
	for _, set := range c.Plugins[0].IPAM.Ranges {
		for _, r := range set {
			p, err := netip.ParsePrefix(r.Subnet)
			return p, err == nil
		}
	}
	return netip.Prefix{}, false
}
