package resource_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/resource"
)

func TestParseQuantity(t *testing.T) {
	for text, want := range map[string]string{
		"100Mi": "100Mi", "500m": "500m", "1e3": "1e3", "1E3": "1E3", "1Ei": "1Ei", "1e30": "1e30", "1e-9": "1e-9", "1e-12": "1e-9", "-1": "-1", "0": "0",
	} {
		q, err := resource.ParseQuantity(text)
		if err != nil || q.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, q.String(), err, want)
		}
	}
	for _, text := range []string{
		"1e31", "1e-31", "1E+00031", "1e9999999", "1e-99999999", " 1e9999999", "1e9999999\n", "1e99999999999999999999",
		strings.Repeat("9", 65), "0." + strings.Repeat("0", 100) + "1",
		// The exponent of the canonical text is larger than that of this text.
		"1" + strings.Repeat("0", 58) + "e30",
	} {
		if q, err := resource.ParseQuantity(text); !errors.Is(err, resource.ErrQuantityLimits) {
			t.Errorf("%.80q: %s, %v", text, q.String(), err)
		}
	}
	for _, text := range []string{"", "x", "1e", "0x10"} {
		if _, err := resource.ParseQuantity(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestJSONExceedsLimits(t *testing.T) {
	for text, want := range map[string]bool{
		`[{"limits": {"memory": "1e99999"}}]`: true, `{"memory": 1e99999}`: true, `"1e-9999\u0039"`: true,
		`[{"limits": {"memory": "1Gi"}}]`: false, `1e3`: false, `{`: false, ``: false,
	} {
		if got := resource.JSONExceedsLimits([]byte(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
