package cmd

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/wait"
)

// At the interval spareEvery, a supervisor returns memory to the system if the heap has unused memory, or if
// a burst of work has ended since the last check. With 100 pods, a burst such as the start leaves 15 MB
// unused, which the Go runtime would keep for the next burst. Finding and returning this memory takes 15 ms.
const spareEvery = 10 * time.Second

// spareBytes is the size of unused memory that a supervisor keeps, or a third of the live heap if this is more:
// some of it is the garbage that sparePercent allows.
const spareBytes = 3 << 20

// A burst of work ends when the supervisor uses at most idleShare of a processor. With 50 pods and 100 probes,
// podrun uses 0.7 %.
const idleShare = 0.02

// The end of a burst makes a supervisor return memory at most once in burstPause. A supervisor that is never
// idle returns memory at the interval busyPause.
const (
	burstPause = time.Minute
	busyPause  = 5 * time.Minute
)

// sparePercent is the argument of debug.SetGCPercent, unless GOGC is set. The values 25 and 50 were
// measured with make bench-serve, 100 idle pods, containerd and a busy machine, one run each.
// With the value 25, podrun used at most 48 MB and 0.63 % of a processor. With the value 50, it
// used 52 MB and 0.50 %. With 50 pods and 100 probes, the value 20 instead of 25 saves 1 MB.
const sparePercent = 20

// spareMemory collects garbage more often than by default until ctx ends, because a supervisor
// shares the host's memory with its pods for a long time. It also unmaps the binary whenever it
// returns memory.
func spareMemory(ctx context.Context) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(sparePercent)
	}
	go func() {
		for l := newLoad(processorTime(), time.Now()); wait.SleepPeriod(ctx, spareEvery) == nil; {
			if !l.release(processorTime(), time.Now(), hasUnusedMemory()) {
				continue
			}
			debug.FreeOSMemory()
			// The pages only count as used memory if this fails.
			_ = unmapBinary()
			l.released(processorTime(), time.Now())
		}
	}()
}

// load is a sample of the CPU time of a supervisor. It determines when the supervisor returns memory.
type load struct {
	used time.Duration // the CPU time that the process had used at the time at
	at   time.Time
	busy bool      // a burst of work has not ended, or the supervisor has not returned memory since its end
	last time.Time // when the supervisor last returned memory
}

// newLoad returns the sample at the start of a supervisor. The start is a burst of work, and its end need not
// wait for burstPause.
func newLoad(used time.Duration, now time.Time) load {
	return load{used: used, at: now, busy: true, last: now.Add(-burstPause)}
}

// release takes the next sample, and reports whether the supervisor must return memory.
func (l *load) release(used time.Duration, now time.Time, unused bool) bool {
	idle := float64(used-l.used) <= idleShare*float64(now.Sub(l.at))
	l.used, l.at, l.busy = used, now, l.busy || !idle
	since := now.Sub(l.last)
	return unused || l.busy && (idle && since >= burstPause || since >= busyPause)
}

// released takes a sample after memory was returned, which must not count as a burst of work.
func (l *load) released(used time.Duration, now time.Time) {
	*l = load{used: used, at: now, last: now}
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hasUnusedMemory reports whether the heap has more unused memory than a supervisor keeps.
func hasUnusedMemory() bool {
	unused, live := unusedMemory()
	return unused > max(spareBytes, live/3)
}

// unusedMemory returns the bytes of the heap that held no live object at the last
// collection and were not returned to the system, and the bytes of the live objects.
func unusedMemory() (unused, live uint64) {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	free, objects, live := s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64()
	return free + objects - min(objects, live), live
}
