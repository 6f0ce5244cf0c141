package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// run is one run of a container, as the container itself recorded it. Its times are relative to
// the boot of the machine.
type run struct {
	start, end time.Duration
	ended      bool
	code       int
}

// parseRuns reads the record of a container. Its lines are "start SECONDS" and "end SECONDS
// CODE".
func parseRuns(record string) ([]run, error) {
	var runs []run
	for line := range strings.Lines(record) {
		f := strings.Fields(line)
		if len(f) < 2 {
			return nil, fmt.Errorf("record line %q", line)
		}
		seconds, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return nil, fmt.Errorf("record line %q: %w", line, err)
		}
		at := time.Duration(seconds * float64(time.Second))
		switch {
		case f[0] == "start":
			runs = append(runs, run{start: at})
		case f[0] == "end" && len(f) == 3 && len(runs) > 0 && !runs[len(runs)-1].ended:
			last := &runs[len(runs)-1]
			last.end, last.ended = at, true
			if last.code, err = strconv.Atoi(f[2]); err != nil {
				return nil, fmt.Errorf("record line %q: %w", line, err)
			}
		default:
			return nil, fmt.Errorf("record line %q after %d starts", line, len(runs))
		}
	}
	return runs, nil
}

// The kubelet's back-off (docs/serve.md): none before the first restart, then 10 s, doubling up
// to 5 minutes. A run of 10 minutes resets it, but no run of the soak is that long.
const (
	firstDelay = 10 * time.Second
	lastDelay  = 5 * time.Minute
)

// delayBefore returns the back-off before the n-th restart of a container. The first restart is
// 1.
func delayBefore(n int) time.Duration {
	if n < 2 {
		return 0
	}
	d := firstDelay
	for range n - 2 {
		d = min(2*d, lastDelay)
	}
	return d
}

// tolerance is how much earlier than its back-off a container may start, because the resolution
// of its record is a hundredth of a second.
const tolerance = 50 * time.Millisecond

// verdict is the model's verdict on one container.
type verdict struct {
	starts int
	// for each restart, the time between the end of its back-off and the restart
	late []time.Duration
	// hidden and cut count starts during which podrun or the runtime was killed, so that the
	// runtime undid the start or did not record it. If the program had already started, its record
	// contains the start but not the end: the start is hidden. Otherwise, the start is cut. Both
	// count as runs with a back-off.
	hidden, cut int
	faults      []string
}

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// conditions are the inputs with which the model judges a container.
type conditions struct {
	policy string
	now    time.Duration
	// the maximum delay of a restart, including the time during which podrun or the runtime is down
	slack time.Duration
	// crashes are the times at which the runtime was killed. kills are the times at which podrun
	// was killed.
	crashes, kills []time.Duration
}

// judge checks the runs of a container against its restart policy and the back-off.
func judge(runs []run, c conditions) verdict {
	v := verdict{starts: len(runs)}
	if len(runs) == 0 {
		v.fault("was never started")
	}
	for i, r := range runs {
		if i+1 < len(runs) {
			v.judgeRestart(i, r, runs[i+1].start, c)
			continue
		}
		restart := i + v.cut + 1
		due := r.end + delayBefore(restart)
		if cut, was := c.cut(due); was {
			due = cut + delayBefore(restart+1)
		}
		if r.ended && c.again(r) && c.now > due+c.slack {
			v.fault("exited with %d at %s and was not started again by %s (due at %s)", r.code, r.end, c.now, due)
		}
	}
	return v
}

// judgeRestart checks the start after the i-th run.
func (v *verdict) judgeRestart(i int, r run, start time.Duration, c conditions) {
	restart := i + v.cut + 1
	due := r.end + delayBefore(restart)
	late := start - due
	if !r.ended {
		if c.hidden(r) {
			v.hidden++
		} else {
			v.fault("start %d at %s came although start %d had not ended", i+2, start, i+1)
		}
		return
	}
	if cut, was := c.cut(due); was && late > startTime && (start-cut-delayBefore(restart+1)).Abs() < startTime {
		v.cut++
		return
	}
	switch {
	case !c.again(r):
		v.fault("was started again at %s although it had exited with %d under %s", start, r.code, c.policy)
	case late < -tolerance:
		v.fault("restart %d came at %s, before the end of its back-off at %s", i+1, start, due)
	case late > c.slack:
		v.fault("restart %d came at %s, %s after the end of its back-off", i+1, start, late)
	default:
		v.late = append(v.late, late)
	}
}

// again reports whether another run must follow the given run.
func (c conditions) again(r run) bool {
	return c.policy == "Always" || c.policy == "OnFailure" && r.code != 0
}

// startTime is the maximum duration of a start. If a kill follows within this time, it may
// interrupt the start, or prevent podrun from observing it.
const startTime = 5 * time.Second

// hidden reports whether a kill may have terminated a program that had started. This is possible
// only if the kill was during StartContainer and after the start of the program.
func (c conditions) hidden(r run) bool {
	return slices.ContainsFunc(slices.Concat(c.kills, c.crashes), func(at time.Duration) bool {
		return at > r.start-tolerance && at < r.start+startTime
	})
}

// cut reports whether a kill may have interrupted a start that was due, and returns the time of the
// kill.
func (c conditions) cut(due time.Duration) (at time.Duration, was bool) {
	for _, at := range slices.Concat(c.kills, c.crashes) {
		if at >= due-tolerance && at < due+startTime {
			return at, true
		}
	}
	return 0, false
}
