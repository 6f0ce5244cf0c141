package script

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// TestLiveView checks that get -w and top -w are live views on a terminal, that keys sort them, and
// that q, Ctrl-C and SIGTERM end them and restore the terminal.
func TestLiveView(t *testing.T) {
	ring.Require(t, 2)
	if _, err := exec.LookPath("tmux"); err != nil || os.Geteuid() != 0 {
		t.Skip("no tmux, or not root")
	}
	w := newTerminal(t, 80)
	if out, code := w.race.run("", "apply", "-q", "--allow-kubelet", w.dir+"/web.yaml"); code != 0 {
		t.Fatal(out)
	}
	for _, c := range []struct{ command, sorted, row string }{
		{"get -w", "restarts", `web +2/2 +Running +0 .*Started (\d+m(\d+s)?|\d+s) ago`},
		{"get pods -o wide --watch", "restarts", `web +2/2 +Running`},
		{"top -w", "restarts", `web +\d+m +\d+Mi +0 +Started`},
		{"top --watch --containers", "restarts", `web +app +\d+m`},
	} {
		for end, code := range map[string]int{"q": 0, "C-c": 130, "TERM": 143} {
			line := c.command + "; code=$?; stty -a; (exit $code)"
			w.last = ""
			w.run(line, c.row)
			w.tmux("send-keys", "r")
			w.run(line, "sorted by "+c.sorted)
			if end == "TERM" {
				w.signal(syscall.SIGTERM)
			} else {
				w.tmux("send-keys", end)
			}
			after := w.run(line, fmt.Sprintf("exit code %d\n", code))
			if strings.Contains(after, "sorted by") || strings.Contains(after, "-icanon") || strings.Contains(after, "-echo ") || !strings.Contains(after, "icanon") {
				t.Errorf("%s, ended by %s: the terminal is not restored:\n%s", c.command, end, after)
			}
		}
	}
}

// TestLiveViewResizes checks that the view follows the size of the terminal, and truncates
// lines.
func TestLiveViewResizes(t *testing.T) {
	ring.Require(t, 2)
	if _, err := exec.LookPath("tmux"); err != nil || os.Geteuid() != 0 {
		t.Skip("no tmux, or not root")
	}
	w := newTerminal(t, 200)
	if out, code := w.race.run("", "apply", "-q", "--allow-kubelet", w.dir+"/web.yaml"); code != 0 {
		t.Fatal(out)
	}
	w.run("get -w", "Started .*ago: .*Container started")
	w.tmux("resize-window", "-x", "40")
	w.width = 40
	w.run("get -w", `(?m)^web .*…$`)
	w.tmux("resize-window", "-x", "150")
	w.width = 150
	w.run("get -w", "Started .*ago: .*Container started")
	w.tmux("send-keys", "q")
	w.run("get -w", "exit code 0")
}

// TestWatchWithoutTerminal checks that --watch prints lines without control sequences if stdout is
// not a terminal.
func TestWatchWithoutTerminal(t *testing.T) {
	ring.Require(t, 2)
	ring.RequireRoot(t)
	w := newTerminal(t, 80) // only the terminal's manifests are used
	if out, code := w.race.run("", "apply", "-q", "--allow-kubelet", w.dir+"/web.yaml"); code != 0 {
		t.Fatal(out)
	}
	for command, want := range map[string]string{
		"get -w": `^NAME   READY   STATUS    RESTARTS   AGE\nweb    2/2     Running   0          (\d+m(\d+s)?|\d+s)\n$`,
		"top -w": `^NAME +CPU\(cores\) +MEMORY\(bytes\)( +\S+)*\n(web +\d+m +\d+[KM]i( +\S+)*\n){2,}$`,
	} {
		c := patience.Command(t.Context(), w.race.program, strings.Fields(command)...)
		var out buffer
		c.Env, c.Stdout, c.Stderr = w.race.env, &out, &out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		pattern := regexp.MustCompile(want)
		patience.Wait(t, patience.OnFake, fmt.Sprintf("podrun %s: no %q", command, want), func() bool { return pattern.MatchString(out.String()) })
		// the process may have already exited
		_ = c.Process.Signal(syscall.SIGINT)
		if err := c.Wait(); c.ProcessState.ExitCode() != 130 {
			t.Errorf("podrun %s: %v", command, err)
		}
	}
}

// signal sends a signal to the podrun process in the terminal, which is the child of the terminal's
// shell.
func (w *terminal) signal(sig syscall.Signal) {
	w.t.Helper()
	shell := strings.TrimSpace(w.tmux("display-message", "-p", "#{pane_pid}"))
	children, err := os.ReadFile("/proc/" + shell + "/task/" + shell + "/children")
	if err != nil {
		w.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(children)))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := syscall.Kill(pid, sig); err != nil {
		w.t.Fatal(err)
	}
}
