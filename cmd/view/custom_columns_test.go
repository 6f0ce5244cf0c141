package view

import (
	"testing"

	"github.com/podrun/podrun/test/patience"
)

// TestCompareHostileValues covers the comparison of values by get --sort-by: containers write
// some of these values, such as termination messages. A value that would occupy Kubernetes'
// parser for minutes is compared as text.
func TestCompareHostileValues(t *testing.T) {
	patience.Within(t, 10, "a comparison", func() {
		if got := compareValues("1e-99999999", "100Mi"); got <= 0 {
			t.Errorf("%d, want the order of texts", got)
		}
	})
	if got := compareValues("1Gi", "100Mi"); got <= 0 {
		t.Errorf("%d, want the order of quantities", got)
	}
}
