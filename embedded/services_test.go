package embedded

import (
	"net/netip"
	"testing"
)

func TestServiceRanges(t *testing.T) {
	subnets := []netip.Prefix{netip.MustParsePrefix("10.64.7.0/24"), netip.MustParsePrefix("fd00:1::/64")}
	first, err := ServiceRanges("0a1b2c3d", subnets, nil)
	if err != nil || len(first) != 2 || first[0].Bits() != serviceBits || !pools[0].Contains(first[0].Addr()) || first[1].Bits() != serviceBits6 {
		t.Fatalf("%v, %v", first, err)
	}
	if again, _ := ServiceRanges("0a1b2c3d", subnets, nil); again[0] != first[0] || again[1] != first[1] {
		t.Errorf("%v, then %v", first, again)
	}
	if other, _ := ServiceRanges("0a1b2c3e", subnets, nil); other[0] == first[0] || other[1] == first[1] {
		t.Errorf("two root directories have %v", other)
	}
	moved, err := ServiceRanges("0a1b2c3d", subnets, first)
	if err != nil || moved[0].Overlaps(first[0]) || moved[1].Overlaps(first[1]) {
		t.Errorf("%v overlaps a used range, %v", moved, err)
	}
	for _, taken := range []string{"10.0.0.0/8", "10.0.0.0/9"} {
		got, err := ServiceRanges("0a1b2c3d", subnets[:1], []netip.Prefix{netip.MustParsePrefix(taken)})
		if err != nil || len(got) != 1 || got[0].Overlaps(netip.MustParsePrefix(taken)) || got[0] != got[0].Masked() {
			t.Errorf("%s is in use: %v, %v", taken, got, err)
		}
	}
	if _, err := ServiceRanges("0a1b2c3d", subnets[:1], pools); err == nil {
		t.Error("a range of full pools")
	}
	if got, err := ServiceRanges("0a1b2c3d", nil, nil); err != nil || len(got) > 0 {
		t.Errorf("without subnets: %v, %v", got, err)
	}
}
