package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// run is one run of a container, from the container's own record. Times are relative to the
// boot of the machine.
type run struct {
	start, end time.Duration
	ended      bool
	code       int
}

// parseRuns reads a container's record: lines "start SECONDS" and "end SECONDS CODE".
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

// The kubelet's back-off (docs/serve.md): none before the first restart, then 10 s,
// doubling up to 5 minutes. No run of the soak is as long as the 10 minutes that reset it.
const (
	firstDelay = 10 * time.Second
	lastDelay  = 5 * time.Minute
)

// delayBefore returns the back-off before a container's n-th restart, starting at 1.
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

// tolerance is how much earlier than its back-off a container may start: the resolution of
// its record is a hundredth of a second.
const tolerance = 50 * time.Millisecond

// verdict is the model's verdict on one container.
type verdict struct {
	starts int
	late   []time.Duration // for each restart, the delay after the end of its back-off
	// podrun or the runtime may be killed during StartContainer: the runtime then undoes the
	// start, or does not record it. If the program had already started, its record contains the
	// start but not the end, and the start is hidden. Otherwise, the start is cut. Both count as
	// runs, with a back-off.
	hidden, cut int
	faults      []string
}

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// conditions are the inputs for judging a container.
type conditions struct {
	policy string
	now    time.Duration
	slack  time.Duration // maximum delay of a restart, including all times without podrun or runtime
	// crashes are the times at which the runtime was killed, and kills those at which
	// podrun was.
	crashes, kills []time.Duration
}

// judge compares a container's runs with its restart policy and the back-off.
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

// judgeRestart judges the start after the i-th run.
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

// again reports whether another run must follow a run.
func (c conditions) again(r run) bool {
	return c.policy == "Always" || c.policy == "OnFailure" && r.code != 0
}

// startTime is the maximum duration of a start: a kill within this time may interrupt the
// start, or prevent it from being observed.
const startTime = 5 * time.Second

// hidden reports whether a kill may have terminated a started program: one during
// StartContainer, after the start. An earlier kill is no excuse.
func (c conditions) hidden(r run) bool {
	return slices.ContainsFunc(slices.Concat(c.kills, c.crashes), func(at time.Duration) bool {
		return at > r.start-tolerance && at < r.start+startTime
	})
}

// cut reports whether a kill may have cut a start that was due, and when.
func (c conditions) cut(due time.Duration) (at time.Duration, was bool) {
	for _, at := range slices.Concat(c.kills, c.crashes) {
		if at >= due-tolerance && at < due+startTime {
			return at, true
		}
	}
	return 0, false
}
