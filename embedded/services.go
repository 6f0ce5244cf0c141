package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
)

const (
	serviceBits  = 22
	serviceBits6 = 112
)

// ServiceRanges returns ranges for the virtual IPs of Services: one of each address family of the pod
// subnets. They overlap neither the pod subnets nor the used networks. The first candidate depends on
// the ID, as in Subnet.
func ServiceRanges(id string, subnets, used []netip.Prefix) ([]netip.Prefix, error) {
	used = slices.Concat(used, subnets)
	var out []netip.Prefix
	for _, s := range subnets {
		r, err := serviceRange6(id, used)
		if s.Addr().Is4() {
			r, err = serviceRange4(id, used)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// ServiceRangeOf returns the range that contains a virtual IP.
func ServiceRangeOf(ip netip.Addr) netip.Prefix {
	bits := serviceBits6
	if ip.Is4() {
		bits = serviceBits
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

func serviceRange4(id string, used []netip.Prefix) (netip.Prefix, error) {
	sum := sha256.Sum256([]byte("podrun services " + id))
	start := binary.BigEndian.Uint32(sum[:])
	for _, pool := range pools {
		base := pool.Addr().As4()
		count := uint32(1) << (serviceBits - pool.Bits())
		for i := range count {
			n := (start%count + i) % count
			at := binary.BigEndian.Uint32(base[:]) + n<<(32-serviceBits)
			candidate := netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, at))), serviceBits)
			if len(overlapping(candidate, used)) == 0 {
				return candidate, nil
			}
		}
	}
	return netip.Prefix{}, fmt.Errorf("no /%d range in %v is free for the virtual IPs of Services: every one overlaps one of this host's routes or addresses", serviceBits, pools)
}

func serviceRange6(id string, used []netip.Prefix) (netip.Prefix, error) {
	for n := range 1000 {
		sum := sha256.Sum256(fmt.Appendf(nil, "podrun services %s %d", id, n))
		addr := [16]byte{0: 0xfd}
		copy(addr[1:6], sum[:])
		if candidate := netip.PrefixFrom(netip.AddrFrom16(addr), serviceBits6); len(overlapping(candidate, used)) == 0 {
			return candidate, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("every unique local /%d range overlaps one of this host's routes or addresses", serviceBits6)
}

// ReadServiceRanges returns ranges for the virtual IPs of a layout's Services; none if there is no pod
// network yet.
func ReadServiceRanges(ctx context.Context, l Layout) ([]netip.Prefix, error) {
	subnets, err := ReadSubnets(ctx, l)
	if err != nil || len(subnets) == 0 {
		return nil, err
	}
	used, err := readUsed(l.Bridge())
	if err != nil {
		return nil, err
	}
	return ServiceRanges(l.ID(), subnets, used)
}
