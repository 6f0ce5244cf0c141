package observe

import (
	"os/exec"
	"testing"
	"time"
)

// A process is watched only if it is the container's own: the control group's
// name tells. Every line of /proc/PID/cgroup has a slash, which stands for the
// container's ID here.
func TestWatchPID(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	pid := child.Process.Pid

	for name, foreign := range map[string]pidWatch{
		"no pid":            watchPID(0, "/"),
		"another's process": watchPID(pid, "0123456789abcdef"),
		"no ID":             watchPID(pid, ""),
	} {
		if foreign.exited != nil || foreign.gone {
			t.Errorf("%s: watched %v, gone %v; want neither", name, foreign.exited != nil, foreign.gone)
		}
		foreign.stop()
	}

	own := watchPID(pid, "/")
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
	select {
	case <-own.exited:
	case <-time.After(10 * time.Second):
		t.Fatal("the end of the process was not told")
	}
	own.stop()
	if w := watchPID(pid, "/"); !w.gone || w.exited != nil { // a zombie: nobody has waited for it
		t.Errorf("a zombie: gone %v, watched %v; want gone", w.gone, w.exited != nil)
	}
	child.Wait()
	if w := watchPID(pid, "/"); !w.gone || w.exited != nil {
		t.Errorf("a process that was reaped: gone %v, watched %v; want gone", w.gone, w.exited != nil)
	}
}

// A watch that is given up ends at once, and tells no exit.
func TestWatchPIDStop(t *testing.T) {
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	w := watchPID(child.Process.Pid, "/")
	w.stop()
	select {
	case <-w.exited:
		t.Error("a running process has ended")
	default:
	}
}
