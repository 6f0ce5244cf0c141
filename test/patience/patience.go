// Package patience bounds the waits of tests that run in real time. A limit only ends a test that
// hangs, and counts ticks.
//
// A tick is a second in which the test process ran and the machine had a CPU for each runnable
// process. A machine that was paused has had one tick. If twice as many processes can run as the
// machine has CPUs, a tick takes two seconds; it takes at most eight.
package patience

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Limits, in ticks, of a script or a test.
const (
	OnFake    = 60  // on the fake runtime, or without one
	OnRuntime = 120 // on a real runtime
)

// Slowness is the factor by which the machine is slower than others. The guest (test/guest) is an
// emulated machine.
var Slowness = func() int {
	n, err := strconv.Atoi(os.Getenv("PODRUN_TEST_SLOWNESS"))
	if err != nil {
		return 1
	}
	return max(n, 1)
}()

// Exceeded is the cause of a context that a limit ended.
type Exceeded int

func (e Exceeded) Error() string {
	return fmt.Sprintf("it hangs: the limit of %d ticks was exceeded", int(e))
}

// Context returns a context that ends after a number of ticks.
func Context(parent context.Context, ticks int) (context.Context, context.CancelFunc) {
	ticks *= Slowness
	ctx, cancel := context.WithCancelCause(parent)
	go count(ctx, ticks, time.NewTicker(time.Second), share, func() { cancel(Exceeded(ticks)) })
	return ctx, func() { cancel(nil) }
}

// count calls end after a number of ticks, unless ctx ends earlier. A ticker drops the ticks of the
// time in which the process did not run.
func count(ctx context.Context, ticks int, ticker *time.Ticker, share func() float64, end func()) {
	defer ticker.Stop()
	for seen := 0.0; seen < float64(ticks); {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			seen += share()
		}
	}
	end()
}

// share returns the part of a CPU that each runnable process has.
func share() float64 {
	// The fourth field contains the numbers of runnable and of all threads: "0.20 0.18 0.12 3/80 11206".
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 1
	}
	return shareOf(string(data), runtime.NumCPU())
}

// leastShare bounds the duration of a tick, so that a limit ends before that of go test, after which
// nothing reports the output of the processes.
const leastShare = 1. / 8

func shareOf(loadavg string, cpus int) float64 {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return 1
	}
	runnable, _, _ := strings.Cut(fields[3], "/")
	n, err := strconv.Atoi(runnable)
	if err != nil || n <= cpus {
		return 1
	}
	return max(float64(cpus)/float64(n), leastShare)
}

// Until waits until a condition holds, which it checks at increasing intervals. If ctx ends before,
// it returns the cause.
func Until(ctx context.Context, holds func() bool) error {
	pause := time.Millisecond
	for !holds() {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
		pause = min(pause*3/2, 200*time.Millisecond)
	}
	return nil
}

// Wait waits until a condition holds, and fails the test with the stacks of all goroutines if this
// takes more than a number of ticks.
func Wait(t testing.TB, ticks int, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := Context(context.WithoutCancel(t.Context()), ticks)
	defer cancel()
	if err := Until(ctx, holds); err != nil {
		t.Fatalf("%s: %v\n%s", what, err, stacks())
	}
}

// Receive receives from a channel. It fails the test like Wait, after OnFake ticks.
func Receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	ctx, cancel := Context(context.WithoutCancel(t.Context()), OnFake)
	defer cancel()
	select {
	case v := <-from:
		return v
	case <-ctx.Done():
	}
	t.Fatalf("%s: %v\n%s", what, context.Cause(ctx), stacks())
	panic("unreachable")
}

// Within runs a function, and fails the test like Wait if the function takes more than a number of ticks.
func Within(t testing.TB, ticks int, what string, do func()) {
	t.Helper()
	done, returned := make(chan struct{}), false
	go func() { defer close(done); do(); returned = true }()
	ctx, cancel := Context(context.WithoutCancel(t.Context()), ticks)
	defer cancel()
	select {
	case <-done:
		if !returned {
			t.FailNow() // the function has called FailNow
		}
	case <-ctx.Done():
		t.Fatalf("%s: %v\n%s", what, context.Cause(ctx), stacks())
	}
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	buffer := make([]byte, 1<<20)
	return string(buffer[:runtime.Stack(buffer, true)])
}

// Command is exec.CommandContext, except that SIGABRT ends the command: podrun then prints its
// goroutines on stderr.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGABRT) }
	c.WaitDelay = 10 * time.Second // then SIGKILL
	return c
}
