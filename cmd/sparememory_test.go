package cmd

import (
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

func TestUnusedMemory(t *testing.T) {
	percent := debug.SetGCPercent(-1) // only this test collects garbage
	defer debug.SetGCPercent(percent)
	debug.FreeOSMemory()
	// Objects in use prevent that the memory between them is returned, and goroutines of earlier tests
	// allocate memory. The garbage is much larger than both.
	const size = 64 * spareBytes
	before, _ := unusedMemory()
	garbage := make([]byte, size)
	_ = garbage[len(garbage)-1]
	during, _ := unusedMemory()
	if during < before+size/2 {
		t.Errorf("%d bytes are unused, and %d were before there was garbage of %d", during, before, size)
	}
	debug.FreeOSMemory()
	if after, _ := unusedMemory(); after > during-size/2 {
		t.Errorf("%d bytes are unused after they were returned, and %d before", after, during)
	}
}

func TestLoad(t *testing.T) {
	start := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const idle, busy = 200 * time.Millisecond, 201 * time.Millisecond // of 10 s
	for _, test := range []struct {
		name   string
		used   []time.Duration // CPU time in each interval of 10 s
		unused int             // the interval after which the heap has unused memory; 0 for none
		want   []int           // the intervals after which memory is returned
	}{
		{"a short start", []time.Duration{idle, idle, idle}, 0, []int{1}},
		{"a long start", []time.Duration{busy, busy, idle, idle}, 0, []int{3}},
		{"unused memory", []time.Duration{idle, idle, idle}, 2, []int{1, 2}},
		{"a burst soon after a return", []time.Duration{idle, busy, idle, idle, idle, idle, idle, idle}, 0, []int{1, 7}},
		{"a later burst", []time.Duration{idle, idle, idle, idle, idle, idle, idle, busy, busy, idle, idle}, 0, []int{1, 10}},
		{"always busy", slices.Repeat([]time.Duration{busy}, 61), 0, []int{24, 54}},
	} {
		t.Run(test.name, func(t *testing.T) {
			now, used := start, time.Second
			l := newLoad(used, now)
			var got []int
			for i, d := range test.used {
				now, used = now.Add(10*time.Second), used+d
				if l.release(used, now, i+1 == test.unused) {
					got = append(got, i+1)
					used += time.Second // the cost
					l.released(used, now)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("memory is returned after the intervals %d, want %d", got, test.want)
			}
		})
	}
}
