package cmd

import (
	"testing"
	"time"
)

// TestCompareHostileValues covers the comparison of values by get --sort-by: containers write
// some of these values, such as termination messages. A value that would occupy Kubernetes'
// parser for minutes is compared as text.
func TestCompareHostileValues(t *testing.T) {
	begun := time.Now()
	if got := compareValues("1e-99999999", "100Mi"); got <= 0 {
		t.Errorf("%d, want the order of texts", got)
	}
	if got := compareValues("1Gi", "100Mi"); got <= 0 {
		t.Errorf("%d, want the order of quantities", got)
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("took %s", took)
	}
}
