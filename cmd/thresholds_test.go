package cmd

import (
	"maps"
	"testing"

	"github.com/podrun/podrun/cmd/config"
)

func TestThresholds(t *testing.T) {
	for text, want := range map[string]map[string]string{
		"": {},
		"memory.available<100Mi,nodefs.available<10%": {"memory.available": "100Mi", "nodefs.available": "10%"},
		"memory.available":                            nil,
		"<1":                                          nil,
	} {
		got := config.Thresholds{"stale": "1"}
		err := got.Set(text)
		if (err != nil) != (want == nil) {
			t.Errorf("%q: %v", text, err)
		}
		if want != nil && !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
		if want != nil && got.String() != text {
			t.Errorf("%q is written %q", text, got.String())
		}
	}
}
