package main

import (
	"strings"
	"testing"
	"time"
)

func TestDelayBefore(t *testing.T) {
	want := []time.Duration{0, 10, 20, 40, 80, 160, 300, 300}
	for i, seconds := range want {
		if got := delayBefore(i + 1); got != seconds*time.Second {
			t.Errorf("before restart %d: %s, want %ds", i+1, got, seconds)
		}
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, record, policy string
		now                  int
		crashes              []time.Duration
		fault                string // part of the only one; none if empty
		cut                  int
	}{
		{"healthy", "start 5\n", "Always", 900, nil, "", 0},
		{"never started", "", "Always", 900, nil, "never started", 0},
		{"a healthy one was started twice", "start 5\nstart 60\n", "Always", 900, nil, "had not ended", 0},
		{"a start that a crash hid", "start 5\nend 6 1\nstart 6.1\nstart 17\n", "Always", 20, []time.Duration{7 * time.Second}, "", 1},
		{"back-off", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\nstart 17.2\nend 18.2 0\nstart 38.3\n", "Always", 40, nil, "", 0},
		{"too early", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\nstart 16\n", "Always", 20, nil, "before the end of its back-off", 0},
		{"too late", "start 5\nend 6 1\nstart 46\n", "Always", 50, nil, "after the end of its back-off", 0},
		{"not again", "start 5\nend 6 1\n", "OnFailure", 50, nil, "was not started again", 0},
		{"not yet", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\n", "OnFailure", 40, nil, "", 0},
		{"completed", "start 5\nend 6 1\nstart 6.1\nend 7.1 0\n", "OnFailure", 900, nil, "", 0},
		{"completed and again", "start 5\nend 6 0\nstart 6.1\n", "OnFailure", 900, nil, "under OnFailure", 0},
		{"never again", "start 5\nend 6 1\nstart 6.1\n", "Never", 900, nil, "under Never", 0},
	} {
		runs, err := parseRuns(c.record)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		v := judge(runs, c.policy, time.Duration(c.now)*time.Second, 30*time.Second, c.crashes)
		got := strings.Join(v.faults, "; ")
		if (c.fault == "") != (got == "") || !strings.Contains(got, c.fault) || v.cut != c.cut {
			t.Errorf("%s: faults %q, %d cut; want %q, %d", c.name, got, v.cut, c.fault, c.cut)
		}
	}
}

func TestParseRuns(t *testing.T) {
	for _, record := range []string{"start\n", "start x\n", "end 5 1\n", "start 5\nend 6\n", "start 5\nend 6 1\nend 7 1\n", "start 5\nend 6 x\n"} {
		if _, err := parseRuns(record); err == nil {
			t.Errorf("%q was read", record)
		}
	}
}
