package nodeconfig

import (
	"testing"
	"time"
)

func TestCrashLoopBackOff(t *testing.T) {
	for _, tc := range []struct {
		name           string
		period         time.Duration
		gates          map[string]bool
		first, longest time.Duration
	}{
		{"default", 0, nil, 10 * time.Second, 5 * time.Minute},
		{"a longest", time.Minute, nil, 10 * time.Second, time.Minute},
		{"a longest below the first", 2 * time.Second, nil, 2 * time.Second, 2 * time.Second},
		{"reduced", 0, map[string]bool{gateReducedBackOff: true}, time.Second, 5 * time.Minute},
		{"reduced, without the other gate", 0, map[string]bool{gateReducedBackOff: true, gateBackOffMax: false}, time.Second, time.Minute},
		{"reduced, with a longest", 5 * time.Minute, map[string]bool{gateReducedBackOff: true}, time.Second, 5 * time.Minute},
		{"the gate is off", 30 * time.Second, map[string]bool{gateBackOffMax: false}, 10 * time.Second, 5 * time.Minute},
	} {
		s := Settings{MaxContainerRestartPeriod: tc.period, FeatureGates: tc.gates}
		if first, longest := s.CrashLoopBackOff(); first != tc.first || longest != tc.longest {
			t.Errorf("%s: %s to %s, want %s to %s", tc.name, first, longest, tc.first, tc.longest)
		}
	}
}

func TestLogMaxSize(t *testing.T) {
	for text, want := range map[string]int64{"10Mi": 10 << 20, "1k": 1000, "-1": -1, "0": 0} {
		if got, err := (Settings{ContainerLogMaxSize: text}).LogMaxSize(); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	if _, err := (Settings{ContainerLogMaxSize: "huge"}).LogMaxSize(); err == nil {
		t.Error("no error for text that is not a quantity")
	}
}
