package nodeconfig

import (
	"fmt"
	"net/netip"
	"strings"
)

// ParsePodCIDR parses the pod subnets of --pod-cidr: one, or one of each address family,
// separated by a comma, as in the kubelet. "" means none.
func ParsePodCIDR(text string) ([]netip.Prefix, error) {
	if text == "" {
		return nil, nil
	}
	var out []netip.Prefix
	for one := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("%q is not a subnet, such as 10.64.0.0/24", one)
		}
		const least = 8
		switch {
		case p != p.Masked():
			return nil, fmt.Errorf("%s has bits after the prefix: use %s", p, p.Masked())
		case p.Bits() < least || p.Bits() > p.Addr().BitLen()-2:
			return nil, fmt.Errorf("%s: the length of the prefix must be from %d to %d", p, least, p.Addr().BitLen()-2)
		case p.Addr().Is4In6() || p.Addr().IsMulticast() || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast():
			return nil, fmt.Errorf("%s is not a subnet for pods", p)
		case len(out) == 2 || len(out) == 1 && out[0].Addr().Is4() == p.Addr().Is4():
			return nil, fmt.Errorf("%q has more than one subnet of an address family", text)
		}
		out = append(out, p)
	}
	return out, nil
}
