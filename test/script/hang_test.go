package script

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// TestHangSaysWhere checks that a script that hangs prints the goroutines of podrun.
func TestHangSaysWhere(t *testing.T) {
	ring.RequireRoot(t)
	t.Parallel()
	h := newFakeHarness(t, critest.Containerd())
	h.ticks = 2
	result := &recorded{}
	testscript.RunT(result, h.only("hang"))
	log := result.log.String()
	for _, want := range []string{"the limit of 2 ticks was exceeded", "background (", "goroutine 1 ", "reconcile.(*loop)"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log does not contain %q", want)
		}
	}
	if n := strings.Count(log, "SIGABRT: abort"); n != 2 || !result.failed {
		t.Errorf("failed: %v; the log contains the goroutines of %d processes, want 2:\n%s", result.failed, n, log)
	}
}

// recorded is the result of a script.
type recorded struct {
	log    strings.Builder
	failed bool
}

func (r *recorded) Log(args ...any)   { fmt.Fprintln(&r.log, args...) }
func (r *recorded) Fatal(args ...any) { r.Log(args...); r.FailNow() }
func (r *recorded) Skip(args ...any)  { r.Fatal(args...) }
func (r *recorded) FailNow()          { r.failed = true; runtime.Goexit() }
func (r *recorded) Failed() bool      { return r.failed }
func (r *recorded) Verbose() bool     { return true }
func (r *recorded) Parallel()         {}
func (r *recorded) Run(_ string, script func(testscript.T)) {
	ended := make(chan struct{})
	go func() { defer close(ended); script(r) }()
	<-ended
}

// limit limits a script to a number of ticks. If the script exceeds it, limit ends the script's
// processes, so that the running command fails, and podrun prints its goroutines.
func (s *script) limit(env *testscript.Env, ticks int) {
	if ticks == 0 {
		ticks = patience.OnRuntime
		if s.fake != nil {
			ticks = patience.OnFake
		}
	}
	ctx, cancel := patience.Context(context.Background(), ticks)
	s.ctx = ctx
	ended := make(chan struct{})
	env.Defer(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		<-ctx.Done()
		if !s.hangs() {
			return
		}
		// A script continues after a command that may fail.
		again := time.NewTicker(5 * time.Second) // time to print the goroutines
		defer again.Stop()
		for sig := syscall.SIGABRT; !s.over.Load(); sig = syscall.SIGKILL {
			s.signalAll(sig)
			<-again.C
		}
	}()
}

// hangs reports whether the script exceeded its limit.
func (s *script) hangs() bool {
	_, exceeded := errors.AsType[patience.Exceeded](context.Cause(s.ctx))
	return exceeded
}

// signalAll signals the processes whose working directory is below the script's directory. Only
// podrun gets SIGABRT: the others have no goroutines to print, and get SIGKILL.
func (s *script) signalAll(sig syscall.Signal) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, dir := range dirs {
		in, err := os.Readlink(dir)
		if err != nil || in != s.work && !strings.HasPrefix(in, s.work+"/") {
			continue // the process has exited, or belongs to something else
		}
		process := filepath.Dir(dir)
		pid, err := strconv.Atoi(filepath.Base(process))
		if err != nil || pid == os.Getpid() {
			continue
		}
		to := sig
		if name, err := os.ReadFile(process + "/comm"); err != nil || strings.TrimSpace(string(name)) != "podrun" {
			to = syscall.SIGKILL
		}
		// the process may have exited
		_ = syscall.Kill(pid, to)
	}
}

// until waits until a condition holds, or returns why the script ends.
func (s *script) until(holds func() bool) error { return patience.Until(s.ctx, holds) }

// logHang logs the output of background commands of a script that exceeded its limit. It waits for their ends,
// because they may still be printing their goroutines.
func (s *script) logHang(t testscript.T) {
	t.Log(fmt.Sprint(context.Cause(s.ctx)))
	ctx, cancel := patience.Context(context.Background(), 10)
	defer cancel()
	for name, b := range s.background {
		select {
		case <-b.done:
		case <-ctx.Done():
		}
		t.Log(fmt.Sprintf("%s (%s):\n%s%s", name, strings.Join(b.cmd.Args, " "), b.stdout.String(), b.stderr.String()))
	}
}
