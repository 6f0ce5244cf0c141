package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// shellPods are two pods: one with a shell on a terminal, and one that only runs.
const shellPods = `apiVersion: v1
kind: Pod
metadata: {name: shell}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers: [{name: app, image: IMAGE, command: [sh], stdin: true, tty: true}]
---
apiVersion: v1
kind: Pod
metadata: {name: once}
spec:
  dnsPolicy: Default
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: app, image: IMAGE, command: [sh]}]
`

// TestTerminal checks exec -it, attach -it and run -it on a terminal. The process in the container
// must have the terminal's size, even after a change, and receive keys such as Ctrl-C. podrun must
// pass on exit codes, and restore the terminal at the end.
func TestTerminal(t *testing.T) {
	ring.Require(t, 2)
	r := newRig(t)
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux")
	}
	pods := strings.Split(strings.ReplaceAll(shellPods, "IMAGE", os.Getenv("PODRUN_TEST_IMAGE")), "---\n")
	r.must("apply", r.write("shell.yaml", pods[0]))
	once := r.write("once.yaml", pods[1])
	w := newTerminal(r)

	for _, c := range []struct{ name, line, prompt, code string }{
		{"exec", "exec shell -it -- sh", `/ # $`, "7"},
		{"run", "run -it " + once, `/ # $`, "7"},
		{"attach", "attach shell -it", "press enter", "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func(of *testing.T) { w.T = of }(w.T)
			w.T = t
			// tmux may change the size late.
			w.keys("until stty size | grep '30 90'; do sleep 0.1; done", "Enter")
			w.await(`(?m)30 90$`)
			w.keys("clear; podrun "+c.line, "Enter")
			if c.name == "run" {
				// podrun does not show a prompt that was printed before it attached.
				w.await("press enter")
				w.keys("Enter")
			}
			w.await(c.prompt)
			// The initial size is too large by one. The correct size may arrive late.
			w.keys("Enter", "until stty size | grep '30 90'; do sleep 0.1; done; echo up | tr u U", "Enter")
			w.await(`(?m)^30 90\nUp$`)
			w.tmux("resize-window", "-t", "x", "-x", "71", "-y", "24")
			w.keys("clear; until stty size | grep '24 71'; do sleep 0.1; done", "Enter")
			w.await(`(?m)^24 71$`)
			w.keys("(echo begun | tr b B; exec sleep 1000); echo slept", "Enter")
			w.await(`(?m)^Begun$`)
			w.keys("C-c")
			w.keys("echo after", "Enter")
			if text := w.await(`(?m)^after$`); strings.Contains(text, "\nslept") {
				t.Errorf("Ctrl-C did not reach the process:\n%s", text)
			}
			w.keys("exit 7", "Enter")
			// The test waits for the shell's prompt, because podrun would read earlier input.
			w.await(`(?m)^# $`)
			w.keys("echo code $?; stty -a | grep -o ' icanon'", "Enter")
			w.await(`(?m)^code ` + c.code + `\n icanon$`)
			w.tmux("resize-window", "-t", "x", "-x", "90", "-y", "30")
			w.keys("clear", "Enter")
		})
	}
}

// terminal is a shell on this host, in a terminal of 90 columns and 30 lines.
type terminal struct {
	*rig
	dir string
}

func newTerminal(r *rig) *terminal {
	r.Helper()
	copied := *r
	w := &terminal{rig: &copied, dir: r.TempDir()}
	w.tmux("new-session", "-d", "-s", "x", "-x", "90", "-y", "30", "exec sh")
	r.Cleanup(func() { w.tmux("kill-server") })
	w.await(`# $`)
	return w
}

func (w *terminal) tmux(args ...string) string {
	w.Helper()
	c := exec.Command("tmux", append([]string{"-f", "/dev/null", "-u", "-L", "e2e"}, args...)...)
	c.Env = append(w.env(), "TMUX_TMPDIR="+w.dir, "TERM=xterm", "LANG=C.UTF-8", "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	out, err := c.CombinedOutput()
	if err != nil {
		w.Fatalf("tmux %s: %v\n%s", args, err, out)
	}
	return string(out)
}

func (w *terminal) keys(keys ...string) {
	w.Helper()
	w.tmux(append([]string{"send-keys", "-t", "x"}, keys...)...)
}

// await waits until the text on the terminal matches the pattern, and returns the text.
func (w *terminal) await(pattern string) string {
	w.Helper()
	re := regexp.MustCompile(pattern)
	var text string
	patience.Wait(w, patience.OnRuntime, fmt.Sprintf("no %q on the terminal", pattern), func() bool {
		text = strings.TrimRight(w.tmux("capture-pane", "-t", "x", "-p"), "\n ") + " "
		return re.MatchString(text) || re.MatchString(strings.TrimRight(text, " "))
	})
	return text
}
