package embedded

import (
	"os"
	"testing"
	"time"
)

func TestParseProgress(t *testing.T) {
	stat := "42 (a ) b) S 1 42 42 0 -1 4194560 1000 2000 3 4 50 60 7 8 20 0 9 0 12345 1 2"
	io := "rchar: 100\nwchar: 20\nsyscr: 5\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"
	p, err := parseProgress([]byte(stat), []byte(io))
	if want := (progress{cpu: 50 + 60 + 7 + 8, files: 3 + 100 + 20 + 4096 + 8192}); err != nil || p != want {
		t.Errorf("%+v, %v; want %+v", p, err, want)
	}
	for name, bad := range map[string][2]string{"short": {"42 (x) S 1", io}, "not a number": {stat, "rchar: x\n"}} {
		if _, err := parseProgress([]byte(bad[0]), []byte(bad[1])); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if p, err := readProgress(Layout{RootDir: t.TempDir()}, os.Getpid()); err != nil || p.files == 0 {
		t.Errorf("this process: %+v, %v", p, err)
	}
}

// TestStall checks what counts as progress of containerd.
func TestStall(t *testing.T) {
	idle := func(uint64) progress { return progress{cpu: 7, files: 100, log: 10} }
	for name, c := range map[string]struct {
		pid    func(i uint64) int
		of     func(i uint64) progress
		paused time.Duration // podrun is suspended once for this time
		want   bool
	}{
		"nothing":               {of: idle, want: true},
		"polls for a lock":      {of: func(i uint64) progress { return progress{cpu: i / 2} }, want: true},
		"computes":              {of: func(i uint64) progress { return progress{cpu: 10 * i} }},
		"computes a little":     {of: func(i uint64) progress { return progress{cpu: 2 * i} }},
		"reads":                 {of: func(i uint64) progress { return progress{files: i / 30} }},
		"writes its log":        {of: func(i uint64) progress { return progress{log: int64(i / 30)} }},
		"started again":         {pid: func(i uint64) int { return int(i / 40) }, of: idle},
		"suspended with podrun": {of: func(i uint64) progress { return progress{files: i / 30} }, paused: time.Hour},
	} {
		s, now := stall{}, time.Unix(1e9, 0)
		stalled := false
		for i := range uint64(120) {
			pid := 42
			if c.pid != nil {
				pid = c.pid(i)
			}
			s.observe(pid, c.of(i), now)
			stalled = stalled || s.idle >= stalledAfter
			if now = now.Add(progressPoll); i == 40 {
				now = now.Add(c.paused)
			}
		}
		if stalled != c.want {
			t.Errorf("%s: stalled %t, want %t", name, stalled, c.want)
		}
	}
}
