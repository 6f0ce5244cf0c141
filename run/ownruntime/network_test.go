package ownruntime

import (
	"net/netip"
	"strings"
	"testing"
)

func TestDescribeCollision(t *testing.T) {
	subnet := netip.MustParsePrefix("10.64.3.0/24")
	var many []netip.Prefix
	for _, s := range []string{"10.0.0.0/8", "10.64.0.0/16", "10.64.3.7/32", "10.64.3.8/32"} {
		many = append(many, netip.MustParsePrefix(s))
	}
	for want, overlapping := range map[string][]netip.Prefix{
		"": nil,
		"10.64.3.0/24 overlaps routes or addresses of this host (10.0.0.0/8):":                             many[:1],
		"10.64.3.0/24 overlaps routes or addresses of this host (10.0.0.0/8, 10.64.0.0/16, 10.64.3.7/32):": many,
	} {
		if got := describeCollision(subnet, overlapping); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q", overlapping, got)
		}
	}
}
