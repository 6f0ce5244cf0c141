package embedded

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/podrun/podrun/internal/cniplugin"
	"github.com/podrun/podrun/internal/problem"
)

// pools are the private networks (RFC 1918) from which podrun takes /24 networks as pod
// subnets, in order of preference. For example, if a host has a route to all of 10.0.0.0/8,
// podrun uses one of the others.
var pools = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/10"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16")}

const (
	subnetBits  = 24
	subnetBits6 = 64
)

// Subnet returns a pod subnet that overlaps none of the used networks. These are the host's routes
// and addresses. The first candidate depends on the ID, so that the runtimes of two root
// directories choose different subnets even if neither has a pod yet. Subnet is deterministic. It
// returns an error if all subnets overlap.
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

// subnet6 returns an IPv6 pod subnet that overlaps none of the used networks: a unique local
// /64 (RFC 4193) that follows from the ID. Pods' packets to other hosts are masqueraded, so
// that other hosts may use the same subnet.
func subnet6(id string, used []netip.Prefix) (netip.Prefix, error) {
	for n := range 1000 {
		sum := sha256.Sum256(fmt.Appendf(nil, "podrun pod subnet %s %d", id, n))
		addr := [16]byte{0: 0xfd}
		copy(addr[1:6], sum[:]) // the global ID; the subnet ID is 0
		if candidate := netip.PrefixFrom(netip.AddrFrom16(addr), subnetBits6); len(overlapping(candidate, used)) == 0 {
			return candidate, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("every unique local /%d subnet overlaps one of this host's routes or addresses", subnetBits6)
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

// SubnetInput is the input for the choice of the pod subnets.
type SubnetInput struct {
	ID     string
	Wanted []netip.Prefix // --pod-cidr; nil to choose the subnets
	Have   []netip.Prefix // the subnets that the network has now
	Used   []netip.Prefix // networks of the host's routes and addresses, except the bridge's
	// BridgeExists is true if the bridge exists: running pods may have addresses.
	BridgeExists bool
	IPv6         IPv6State
}

// IPv6State describes IPv6 on a host.
type IPv6State int

// The states.
const (
	IPv6Off    IPv6State = iota // the kernel does not support it, or it is disabled
	IPv6Unused                  // enabled, but without a default route and without a global address
	IPv6Used
)

// Subnets returns the pod subnets: at most one of each address family. It keeps the previous
// subnets because running pods have addresses in them, unless no pod runs and the host now
// uses the subnet. An IPv6 subnet is added to the IPv4 one if the host uses IPv6. The error
// is of kind Refused if pods may run and the wanted subnets do not contain the previous ones.
func Subnets(in SubnetInput) ([]netip.Prefix, error) {
	if len(in.Wanted) > 0 {
		for _, p := range in.Have {
			if in.BridgeExists && !slices.Contains(in.Wanted, p) {
				return nil, &problem.Error{Kind: problem.Refused, Object: "embedded runtime", Err: fmt.Errorf("the pod subnet %s is in use: --pod-cidr (podCIDR) must contain it", p),
					Hint: "delete all pods, run 'podrun runtime down', and then start the runtime with the other subnet"}
			}
		}
		return in.Wanted, nil
	}
	keep := func(v4 bool) netip.Prefix {
		for _, p := range in.Have {
			if p.Addr().Is4() == v4 && (in.BridgeExists || len(overlapping(p, in.Used)) == 0) {
				return p
			}
		}
		return netip.Prefix{}
	}
	p4, p6 := keep(true), keep(false)
	var err error
	if !p4.IsValid() && !(in.BridgeExists && p6.IsValid()) {
		if p4, err = Subnet(in.ID, in.Used); err != nil {
			return nil, err
		}
	}
	switch {
	case in.IPv6 == IPv6Off && p4.IsValid():
		p6 = netip.Prefix{}
	case in.IPv6 == IPv6Used && !p6.IsValid():
		if p6, err = subnet6(in.ID, in.Used); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc([]netip.Prefix{p4, p6}, func(p netip.Prefix) bool { return !p.IsValid() }), nil
}

// conflist is the part of a network configuration list that podrun writes.
type conflist struct {
	CNIVersion string           `json:"cniVersion"`
	Name       string           `json:"name"`
	Plugins    []map[string]any `json:"plugins"`
}

// Network returns the CNI configuration of a layout's pods. hairpinMode lets a pod reach its own
// hostPort. The archive of an earlier release contains upstream's bridge and host-local, and its
// podrun-net is chained after bridge. If chained is true, Network configures this chain. The argument
// namespace is nil for root.
func Network(l Layout, subnets []netip.Prefix, chained bool, namespace *cniplugin.Rootless) ([]byte, error) {
	var ranges [][]map[string]string
	for _, p := range subnets {
		ranges = append(ranges, []map[string]string{{"subnet": p.String()}})
	}
	network := map[string]any{
		"type": cniplugin.Own, "bridge": l.Bridge(), "isDefaultGateway": true, "hairpinMode": true,
		"ipam":         map[string]any{"type": "host-local", "dataDir": l.Addresses(), "ranges": ranges},
		"capabilities": map[string]bool{"portMappings": true, "io.kubernetes.cri.pod-annotations": true},
	}
	if namespace != nil {
		network["rootless"] = namespace
	}
	c := conflist{CNIVersion: "1.0.0", Name: l.Bridge(), Plugins: []map[string]any{network}}
	if chained {
		network["type"] = "bridge"
		delete(network, "capabilities")
		c.Plugins = append(c.Plugins, map[string]any{"type": cniplugin.Own, "bridge": l.Bridge(), "capabilities": map[string]bool{"portMappings": true}})
	}
	data, err := json.MarshalIndent(c, "", "  ")
	return append(data, '\n'), err
}

// subnetsOf returns the subnets in a configuration that Network wrote.
func subnetsOf(data []byte) []netip.Prefix {
	var c struct {
		Plugins []struct {
			IPAM struct {
				Ranges [][]struct{ Subnet netip.Prefix }
			}
		}
	}
	if json.Unmarshal(data, &c) != nil || len(c.Plugins) == 0 {
		return nil
	}
	var out []netip.Prefix
	for _, set := range c.Plugins[0].IPAM.Ranges {
		for _, r := range set {
			out = append(out, r.Subnet)
		}
	}
	return out
}
