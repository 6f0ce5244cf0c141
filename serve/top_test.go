package serve

import (
	"fmt"
	"testing"

	"k8s.io/utils/ptr"
)

// TestSumUsage checks that if the usage of a container is unknown, the result is the pod's own
// usage instead of the sum.
func TestSumUsage(t *testing.T) {
	n := ptr.To[uint64]
	of := func(cpu, memory *uint64) ContainerUsage {
		return ContainerUsage{"c", Usage{cpu, memory}}
	}
	pod := Usage{n(9), n(99)}
	for want, containers := range map[string][]ContainerUsage{
		"9 99": nil,
		"3 30": {of(n(1), n(10)), of(n(2), n(20))},
		"9 30": {of(n(1), n(10)), of(nil, n(20))},
		"3 99": {of(n(1), nil), of(n(2), n(20))},
	} {
		if got := shownUsage(sumUsage(containers, pod)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := shownUsage(sumUsage(nil, Usage{})); got != "- -" {
		t.Error(got)
	}
}

func shownUsage(u Usage) string {
	show := func(n *uint64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	return show(u.NanoCores) + " " + show(u.WorkingSetBytes)
}
