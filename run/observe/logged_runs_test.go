package observe

import "testing"

func TestRunsOf(t *testing.T) {
	for name, want := range map[string]uint32{
		"0.log": 1, "2.log": 3, "2.log.20260101-120000": 3, "2.log.20260101-120000.gz": 3,
		"2.txt": 0, "x.log": 0, "-1.log": 0, "": 0,
		// The restart count is an int32.
		"1073741823.log": 1 << 30, "2147483647.log": 0, "4294967295.log": 0,
	} {
		if got := runsOf(name); got != want {
			t.Errorf("runsOf(%q) = %d, want %d", name, got, want)
		}
	}
}
