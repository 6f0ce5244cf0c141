package prepare

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
)

// checkAddress checks the addresses that a pod's annotation requests. It cannot check whether
// another pod uses an address: the network plugin refuses such an address when podrun creates the
// sandbox.
func (p *Plan) checkAddress() problem.List {
	text, requested := p.Pod.Annotations[identity.AnnotationIP]
	if !requested {
		return nil
	}
	if err := checkAddress(text, p.Pod.Spec.HostNetwork, p.Facts.PodSubnets); err != nil {
		return problem.List{{Field: "metadata.annotations[" + identity.AnnotationIP + "]", Reason: "Address", Message: err.Error()}}
	}
	return nil
}

// checkAddress checks requested addresses, separated by commas: at most one in each of the
// embedded runtime's pod subnets.
func checkAddress(text string, hostNetwork bool, subnets []netip.Prefix) error {
	switch {
	case hostNetwork:
		return fmt.Errorf("a pod with hostNetwork has the addresses of this host: remove the annotation")
	case len(subnets) == 0:
		return fmt.Errorf("only the embedded runtime (--runtime=embedded) assigns requested addresses")
	}
	used := map[netip.Prefix]netip.Addr{}
	for one := range strings.SplitSeq(text, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(one))
		if err != nil || ip.Zone() != "" || ip.Is4In6() {
			return fmt.Errorf("%.80q is not an IP address", one)
		}
		subnet, ok := subnetOf(ip, subnets)
		switch {
		case !ok:
			return fmt.Errorf("%s is not in the pod subnets %v", ip, subnets)
		case used[subnet].IsValid():
			return fmt.Errorf("%s and %s are in the pod subnet %s: request one of them", used[subnet], ip, subnet)
		case ip == subnet.Addr():
			return fmt.Errorf("%s is the address of the pod subnet %s", ip, subnet)
		case ip == subnet.Addr().Next():
			return fmt.Errorf("%s is the gateway of the pod subnet %s", ip, subnet)
		case !subnet.Contains(ip.Next()): // IPv6 has no broadcast address, but host-local does not assign this address in IPv6 either
			return fmt.Errorf("%s is the broadcast address of the pod subnet %s", ip, subnet)
		}
		used[subnet] = ip
	}
	return nil
}

func subnetOf(ip netip.Addr, subnets []netip.Prefix) (netip.Prefix, bool) {
	for _, p := range subnets {
		if p.Contains(ip) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// sameAddress reports whether two definitions of a pod request the same addresses. A sandbox keeps
// its addresses, so podrun must replace a pod that requests other ones.
func sameAddress(a, b *corev1.Pod) bool {
	return a.Annotations[identity.AnnotationIP] == b.Annotations[identity.AnnotationIP]
}
