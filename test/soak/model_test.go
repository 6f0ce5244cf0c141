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
		// the time at which podrun and the runtime are killed; 0 if they are not
		kill        int
		fault       string // substring of the only expected fault; "" if there is none
		hidden, cut int
	}{
		{"healthy", "start 5\n", "Always", 900, 0, "", 0, 0},
		{"never started", "", "Always", 900, 0, "never started", 0, 0},
		{"a healthy one was started twice", "start 5\nstart 60\n", "Always", 900, 0, "had not ended", 0, 0},
		{"a start that a crash hid", "start 5\nend 6 1\nstart 6.1\nstart 17\n", "Always", 20, 7, "", 1, 0},
		{"a kill before a start hides nothing", "start 5\nend 6 1\nstart 6.1\nstart 17\n", "Always", 20, 5, "had not ended", 0, 0},
		{"a kill long after a start hides nothing", "start 5\nstart 60\n", "Always", 80, 12, "had not ended", 0, 0},
		{"back-off", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\nstart 17.2\nend 18.2 0\nstart 38.3\n", "Always", 40, 0, "", 0, 0},
		{"too early", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\nstart 16\n", "Always", 20, 0, "before the end of its back-off", 0, 0},
		{"too late", "start 5\nend 6 1\nstart 46\n", "Always", 50, 0, "after the end of its back-off", 0, 0},
		{"cut", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\nstart 38\nend 39 1\nstart 79.1\n", "Always", 80, 18, "", 0, 1},
		{"late for another reason", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\nstart 60\n", "Always", 80, 18, "after the end of its back-off", 0, 0},
		{"cut and not yet again", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\n", "Always", 60, 18, "", 0, 0},
		{"cut and not again", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\n", "Always", 70, 18, "was not started again", 0, 0},
		{"not again", "start 5\nend 6 1\n", "OnFailure", 50, 0, "was not started again", 0, 0},
		{"not yet", "start 5\nend 6 1\nstart 6.1\nend 7.1 1\n", "OnFailure", 40, 0, "", 0, 0},
		{"completed", "start 5\nend 6 1\nstart 6.1\nend 7.1 0\n", "OnFailure", 900, 0, "", 0, 0},
		{"completed and again", "start 5\nend 6 0\nstart 6.1\n", "OnFailure", 900, 0, "under OnFailure", 0, 0},
		{"never again", "start 5\nend 6 1\nstart 6.1\n", "Never", 900, 0, "under Never", 0, 0},
	} {
		runs, err := parseRuns(c.record)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		under := conditions{policy: c.policy, now: time.Duration(c.now) * time.Second, slack: 30 * time.Second}
		if c.kill > 0 {
			under.kills = []time.Duration{time.Duration(c.kill) * time.Second}
			under.crashes = under.kills
		}
		v := judge(runs, under)
		got := strings.Join(v.faults, "; ")
		if (c.fault == "") != (got == "") || !strings.Contains(got, c.fault) || v.hidden != c.hidden || v.cut != c.cut {
			t.Errorf("%s: faults %q, %d hidden, %d cut; want %q, %d, %d", c.name, got, v.hidden, v.cut, c.fault, c.hidden, c.cut)
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
