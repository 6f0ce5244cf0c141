package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// run is one run of a container, by its own record. Times are since the machine was
// booted.
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

// The kubelet's back-off (docs/serve.md): none before the first restart, then 10 s
// doubling to 5 minutes. No run of the soak lasts for the 10 minutes that reset it.
const (
	firstDelay = 10 * time.Second
	lastDelay  = 5 * time.Minute
)

// delayBefore is the back-off before a container's n-th restart, from 1 on.
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

// tolerance is how much earlier than its back-off a container may start: its record
// counts hundredths of a second.
const tolerance = 50 * time.Millisecond

// verdict is what the model says of one container.
type verdict struct {
	starts int
	late   []time.Duration // of each restart: how long after the end of its back-off
	// cut are runs that a crash of the runtime hid: it did not record that it had
	// started them.
	cut    int
	faults []string
}

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// judge compares a container's runs with its restart policy and the back-off. Crashes
// are when the runtime was killed. A restart may be late by slack, which includes that
// the runtime or podrun was away.
func judge(runs []run, policy string, now, slack time.Duration, crashes []time.Duration) verdict {
	v := verdict{starts: len(runs)}
	if len(runs) == 0 {
		v.fault("was never started")
		return v
	}
	for i, r := range runs {
		last := i == len(runs)-1
		if !r.ended {
			if last {
				continue
			}
			if hidden(r, crashes) {
				v.cut++
				continue
			}
			v.fault("start %d at %s came although start %d had not ended", i+2, runs[i+1].start, i+1)
			continue
		}
		due := r.end + delayBefore(i+1)
		again := policy == "Always" || policy == "OnFailure" && r.code != 0
		switch {
		case last && again && now > due+slack:
			v.fault("exited with %d at %s and was not started again by %s (due at %s)", r.code, r.end, now, due)
		case last:
		case !again:
			v.fault("was started again at %s although it had exited with %d under %s", runs[i+1].start, r.code, policy)
		case runs[i+1].start < due-tolerance:
			v.fault("restart %d came at %s, before the end of its back-off at %s", i+1, runs[i+1].start, due)
		case runs[i+1].start > due+slack:
			v.fault("restart %d came at %s, %s after the end of its back-off", i+1, runs[i+1].start, runs[i+1].start-due)
		default:
			v.late = append(v.late, runs[i+1].start-due)
		}
	}
	return v
}

// startTime is how long a start takes: a crash of the runtime within it may hide it.
const startTime = 5 * time.Second

// hidden tells whether a crash of the runtime may have hidden a start.
func hidden(r run, crashes []time.Duration) bool {
	for _, at := range crashes {
		if (at - r.start).Abs() < startTime {
			return true
		}
	}
	return false
}
