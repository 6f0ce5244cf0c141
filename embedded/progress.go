package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/wait"
)

// Limits of a wait for containerd's start.
const (
	// reportStartAfter is the time after which AttendStart reports that the command waits.
	reportStartAfter = 2 * time.Second
	// stalledAfter is the time without progress after which a command without a time limit stops waiting.
	stalledAfter = time.Minute
	// progressPoll is the interval between two readings of containerd's progress.
	progressPoll = time.Second
)

// leastCPU is the CPU time, in clock ticks of 10 ms, that counts as progress. A process that only polls,
// for example for the lock of a database that another process has open, uses less in stalledAfter.
const leastCPU = 50

// Stalled is the cause of the end of a wait for a containerd that starts, but makes no progress.
type Stalled struct{ PID int }

func (e Stalled) Error() string {
	return fmt.Sprintf("containerd (process %d) does not answer, and has made no progress for %s: it used almost no CPU time, read and wrote no files, and logged nothing", e.PID, stalledAfter)
}

// progress is how much a process has done since its start.
type progress struct {
	cpu   uint64 // CPU time of the process and of the children that have ended, in clock ticks
	files uint64 // bytes that it has read and written, and page faults that required reading a file
	log   int64  // size of containerd's log
}

// readProgress reads the progress of a daemon. It returns an error if the process has ended.
func readProgress(l Layout, pid int) (progress, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return progress{}, err
	}
	io, err := os.ReadFile(filepath.Join(dir, "io"))
	if err != nil {
		return progress{}, err
	}
	p, err := parseProgress(stat, io)
	if err != nil {
		return progress{}, fmt.Errorf("%s: %w", dir, err)
	}
	p.log, err = logSize(l)
	return p, err
}

// parseProgress parses /proc/PID/stat and /proc/PID/io (proc_pid_stat(5), proc_pid_io(5)).
func parseProgress(stat, io []byte) (p progress, err error) {
	// The name is in parentheses, and may contain any characters.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 15 {
		return p, errors.New("stat is too short")
	}
	var errs []error
	add := func(to *uint64, value string) {
		n, err := strconv.ParseUint(value, 10, 64)
		*to += n
		errs = append(errs, err)
	}
	add(&p.files, fields[9])              // majflt
	for _, value := range fields[11:15] { // utime, stime, cutime, cstime
		add(&p.cpu, value)
	}
	for line := range strings.Lines(string(io)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && name != "syscr" && name != "syscw" && name != "cancelled_write_bytes" {
			add(&p.files, value)
		}
	}
	return p, errors.Join(errs...)
}

// stall measures for how long a daemon has made no progress.
type stall struct {
	pid  int
	at   progress
	idle time.Duration // the time without progress
	read time.Time     // the time of the last reading
}

// observe adds a reading. Its time counts only up to the double of progressPoll: podrun itself may have
// been suspended together with containerd. It is pure.
func (s *stall) observe(pid int, p progress, now time.Time) {
	elapsed := min(now.Sub(s.read), 2*progressPoll)
	s.read = now
	if pid != s.pid || p.files != s.at.files || p.log != s.at.log || p.cpu >= s.at.cpu+leastCPU {
		s.pid, s.at, s.idle = pid, p, 0
		return
	}
	s.idle += elapsed
}

// isStarting reports whether a daemon runs that commands cannot use yet.
func (d *Daemon) isStarting(ctx context.Context, l Layout) bool {
	return d.Alive() && (d.Starting || !Listening(ctx, l))
}

// Usable reports whether the daemon runs and has been prepared for use.
func (d *Daemon) Usable(ctx context.Context, l Layout) bool {
	return d.Alive() && !d.isStarting(ctx, l)
}

// AttendStart returns a context for a wait for containerd's start, including the wait for another podrun
// process that starts it. After reportStartAfter, AttendStart calls report once with the process that is
// waited for. If ctx has no deadline and this process makes no progress for stalledAfter, the context ends
// with the cause Stalled. The caller must call end.
func AttendStart(ctx context.Context, l Layout, report func(pid int)) (attended context.Context, end context.CancelFunc) {
	attended, cancel := context.WithCancelCause(ctx)
	_, limited := ctx.Deadline()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		begun, reported, s := time.Now(), false, stall{}
		for wait.Sleep(attended, progressPoll) == nil {
			d := ReadDaemon(attended, l)
			if !d.isStarting(attended, l) {
				s = stall{}
				continue
			}
			if !reported && time.Since(begun) >= reportStartAfter {
				report(d.PID)
				reported = true
			}
			p, err := readProgress(l, d.PID)
			if err != nil || limited {
				continue // it has exited, which the caller notices, or only the deadline limits the wait
			}
			if s.observe(d.PID, p, time.Now()); s.idle >= stalledAfter {
				cancel(Stalled{PID: d.PID})
				return
			}
		}
	}()
	return attended, func() { cancel(nil); <-ended }
}

// startEnded returns the error for a wait for containerd's start, after ctx has ended. It leaves the
// daemon as it is, because a slow start that each command ends would never succeed.
func startEnded(ctx context.Context, d Daemon) error {
	cause := context.Cause(ctx)
	if _, expired := errors.AsType[problem.TimeoutError](cause); expired {
		return &problem.Error{Kind: problem.Deadline, Object: "embedded runtime", Op: "wait for containerd",
			Err:  fmt.Errorf("%w: containerd (process %d) does not answer yet", cause, d.PID),
			Hint: "increase --timeout: containerd continues to start; 'podrun runtime logs' shows its log"}
	}
	if stalled, found := errors.AsType[Stalled](cause); found {
		return stalled.Problem(cause)
	}
	return cause
}

// Problem returns the error of a command that has waited for the daemon. err wraps the receiver.
func (e Stalled) Problem(err error) error {
	return &problem.Error{Kind: problem.Runtime, Object: "embedded runtime", Op: "wait for containerd", Err: err,
		Hint: "'podrun runtime logs' shows its log; 'podrun runtime up' ends the process and starts containerd again"}
}
