package service

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/big"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Max is the maximum number of Services in a root directory.
const Max = 1000

// Key returns namespace/name.
func Key(s *corev1.Service) string { return s.Namespace + "/" + s.Name }

// Assign returns a copy of a Service with its virtual IPs and node ports. It keeps those of previous,
// the record of the same name (nil if there is none). others are the records of all other Services.
// ranges are the ranges of virtual IPs, at most one of each family; without a range, the Service gets
// no virtual IP and no node port. used maps occupied ports of the host to descriptions of their
// users. The error explains what this host does not support or which port is
// taken.
func Assign(s, previous *corev1.Service, others []*corev1.Service, ranges []netip.Prefix, used map[NodePort]string) (*corev1.Service, error) {
	out := s.DeepCopy()
	spec := &out.Spec
	headless := IsHeadless(s)
	wanted := spec.ClusterIPs
	spec.ClusterIP, spec.ClusterIPs = "", nil
	if !HasVirtualIP(s) {
		if headless {
			spec.ClusterIP, spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		}
		return out, nil
	}
	families, err := familiesOf(spec, ranges)
	if err != nil {
		return nil, err
	}
	if previous != nil && HasVirtualIP(previous) {
		// The record takes precedence: clients may have cached the address.
		wanted = previous.Spec.ClusterIPs
	}
	taken := map[netip.Addr]bool{}
	for _, o := range others {
		for _, text := range o.Spec.ClusterIPs {
			if ip, err := netip.ParseAddr(text); err == nil {
				taken[ip] = true
			}
		}
	}
	spec.IPFamilies = nil
	for _, r := range families {
		ip, err := virtualIP(Key(s), wanted, r, taken)
		if err != nil {
			return nil, err
		}
		spec.ClusterIPs = append(spec.ClusterIPs, ip.String())
		spec.IPFamilies = append(spec.IPFamilies, familyOf(ip))
	}
	if len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	return out, assignNodePorts(out, previous, others, used, len(ranges) > 0)
}

// Conflicts reports whether one of the Services has a virtual IP of s.
func Conflicts(s *corev1.Service, services []*corev1.Service) bool {
	return slices.ContainsFunc(services, func(o *corev1.Service) bool {
		return HasVirtualIP(o) && slices.ContainsFunc(o.Spec.ClusterIPs, func(ip string) bool { return slices.Contains(s.Spec.ClusterIPs, ip) })
	})
}

func familyOf(ip netip.Addr) corev1.IPFamily {
	if ip.Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// familiesOf returns the ranges from which a Service gets its virtual IPs, in the Service's order
// of address families.
func familiesOf(spec *corev1.ServiceSpec, ranges []netip.Prefix) ([]netip.Prefix, error) {
	if len(ranges) == 0 {
		return nil, nil
	}
	policy := corev1.IPFamilyPolicySingleStack
	if spec.IPFamilyPolicy != nil {
		policy = *spec.IPFamilyPolicy
	}
	spec.IPFamilyPolicy = &policy
	var out []netip.Prefix
	for _, f := range spec.IPFamilies {
		i := slices.IndexFunc(ranges, func(r netip.Prefix) bool { return familyOf(r.Addr()) == f })
		switch {
		case i >= 0:
			out = append(out, ranges[i])
		case len(spec.IPFamilies) == 1 || policy == corev1.IPFamilyPolicyRequireDualStack:
			return nil, fmt.Errorf("requests %s, but the pods' network has none", f)
		}
	}
	for _, r := range ranges {
		if !slices.Contains(out, r) && (len(out) == 0 || policy != corev1.IPFamilyPolicySingleStack) {
			out = append(out, r)
		}
	}
	if policy == corev1.IPFamilyPolicyRequireDualStack && len(out) < 2 {
		return nil, errors.New("requests ipFamilyPolicy RequireDualStack, but the pods' network has only one address family")
	}
	if policy == corev1.IPFamilyPolicySingleStack {
		out = out[:1]
	}
	return out, nil
}

// virtualIP returns the address in wanted that is in the range or, if there is none, a free address. The
// search for a free address begins at a hash of the name, so that a Service that is deleted and created
// again usually gets the same address. If an exported Service has an address of another cluster,
// virtualIP ignores it. It marks the returned address as taken.
func virtualIP(key string, wanted []string, r netip.Prefix, taken map[netip.Addr]bool) (netip.Addr, error) {
	for _, text := range wanted {
		if ip, err := netip.ParseAddr(text); err == nil && r.Contains(ip) && !taken[ip] && ip != r.Masked().Addr() {
			taken[ip] = true
			return ip, nil
		}
	}
	// The first and the last address are not used: other tools treat them as the network and the
	// broadcast address.
	count := uint32(1)<<min(r.Addr().BitLen()-r.Bits(), 16) - 2
	start := hashOf(key) % count
	for i := range count {
		ip := nth(r, 1+(start+i)%count)
		if !taken[ip] {
			taken[ip] = true
			return ip, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("every virtual IP of %s is in use", r)
}

// nth returns the address at offset n in a range.
func nth(r netip.Prefix, n uint32) netip.Addr {
	base := r.Masked().Addr().AsSlice()
	sum := new(big.Int).Add(new(big.Int).SetBytes(base), big.NewInt(int64(n)))
	ip, _ := netip.AddrFromSlice(sum.FillBytes(make([]byte, len(base))))
	return ip
}

func hashOf(text string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum32()
}
