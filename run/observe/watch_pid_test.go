package observe

import (
	"os/exec"
	"testing"

	"github.com/podrun/podrun/test/patience"
)

// TestWatchPID uses "/" as the container ID, because watchPID watches a process only if the name of
// its cgroup contains the container's ID, and every line of /proc/PID/cgroup contains "/".
func TestWatchPID(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	pid := child.Process.Pid

	for name, foreign := range map[string]pidWatch{
		"no pid":            watchPID(0, "/", nil),
		"another's process": watchPID(pid, "0123456789abcdef", nil),
		"no ID":             watchPID(pid, "", nil),
	} {
		if foreign.exited != nil || foreign.gone {
			t.Errorf("%s: watched %v, gone %v; want neither", name, foreign.exited != nil, foreign.gone)
		}
		foreign.stop()
	}

	told := make(chan struct{})
	own := watchPID(pid, "/", func() { close(told) })
	if own.exited == nil {
		t.Fatal("the process is not watched")
	}
	select {
	case <-own.exited:
		t.Fatal("a running process has ended")
	default:
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	patience.Receive(t, "the exit of the process is reported", own.exited)
	own.stop()
	select {
	case <-told:
	default:
		t.Error("onExit was not called")
	}
	// The process is a zombie, because its parent has not waited for it.
	if w := watchPID(pid, "/", nil); !w.gone || w.exited != nil {
		t.Errorf("a zombie: gone %v, watched %v; want gone", w.gone, w.exited != nil)
	}
	child.Wait()
	if w := watchPID(pid, "/", nil); !w.gone || w.exited != nil {
		t.Errorf("a process that was reaped: gone %v, watched %v; want gone", w.gone, w.exited != nil)
	}
}

// TestWatchPIDStop checks that a canceled watch ends immediately and reports no exit.
func TestWatchPIDStop(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	called := false
	w := watchPID(child.Process.Pid, "/", func() { called = true })
	w.stop()
	select {
	case <-w.exited:
		t.Error("a running process has ended")
	default:
	}
	if called {
		t.Error("the exit of a running process was reported")
	}
}

// TestExitedPID checks that a zombie counts as exited, although its pid still exists.
func TestExitedPID(t *testing.T) {
	cmd := exec.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if exitedPID(cmd.Process.Pid) {
		t.Error("a running process has exited")
	}
	stdin.Close()
	// The process is a zombie, because cmd.Wait has not been called.
	patience.Wait(t, patience.OnFake, "the process has exited", func() bool { return exitedPID(cmd.Process.Pid) })
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if !exitedPID(cmd.Process.Pid) {
		t.Error("a process that does not exist runs")
	}
}
