package wait

import (
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	const first, longest = 10 * time.Second, 5 * time.Minute
	var delay time.Duration
	for n, want := range []time.Duration{0, 10, 20, 40, 80, 160, 300, 300} {
		if want *= time.Second; delay != want || Nth(n, first, longest) != want {
			t.Errorf("delay %d: %s and %s, want %s", n, delay, Nth(n, first, longest), want)
		}
		delay = Next(delay, first, longest)
	}
	if got := Next(time.Hour, first, longest); got != longest {
		t.Errorf("after a longer delay: %s", got)
	}
	if got := Nth(1<<31-1, first, longest); got != longest {
		t.Errorf("the last one: %s", got)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"30":                            30 * time.Second,
		"-30":                           0,
		"soon":                          0,
		"86400":                         5 * time.Minute,
		"90s":                           90 * time.Second,
		"-90s":                          0,
		"9h":                            5 * time.Minute,
		"4294967295":                    5 * time.Minute,
		"99999999999999999999":          0, // too large for a number of seconds
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute,
		"Fri, 02 Jan 2026 03:00:00 GMT": 0,
		"Sat, 02 Jan 2027 03:00:00 GMT": 5 * time.Minute,
	} {
		if got := RetryAfter(value, now, 5*time.Minute); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
