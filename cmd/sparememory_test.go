package cmd

import (
	"runtime/debug"
	"testing"
	"time"
)

func TestUnusedMemory(t *testing.T) {
	percent := debug.SetGCPercent(-1) // only this test collects garbage
	defer debug.SetGCPercent(percent)
	debug.FreeOSMemory()
	if n := unusedMemory(); n > spareBytes {
		t.Fatalf("%d bytes are unused after a collection", n)
	}
	garbage := make([]byte, 4*spareBytes)
	_ = garbage[len(garbage)-1]
	if n := unusedMemory(); n < 3*spareBytes {
		t.Errorf("only %d bytes are unused, of which the garbage has %d", n, 4*spareBytes)
	}
	debug.FreeOSMemory()
	if n := unusedMemory(); n > spareBytes {
		t.Errorf("%d bytes are unused after they were returned", n)
	}
}

func TestLoad(t *testing.T) {
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	l := load{used: time.Second, at: start}
	for _, test := range []struct {
		at, used time.Duration
		want     bool
	}{
		{10 * time.Second, 3 * time.Second, false},                       // the start
		{20 * time.Second, 4 * time.Second, false},                       // continues
		{30 * time.Second, 4*time.Second + 100*time.Millisecond, true},   // and has ended
		{40 * time.Second, 4*time.Second + 200*time.Millisecond, false},  // still idle
		{50 * time.Second, 5 * time.Second, false},                       // a burst
		{110 * time.Second, 5*time.Second + 100*time.Millisecond, true},  // has ended, also if the check is late
		{120 * time.Second, 5*time.Second + 300*time.Millisecond, false}, // a period with just idleShare
	} {
		if got := l.ended(test.used, start.Add(test.at)); got != test.want {
			t.Errorf("after %s with %s of processor time: %t", test.at, test.used, got)
		}
	}
}
