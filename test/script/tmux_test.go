package script

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/podrun/podrun/cri/critest"
	"github.com/podrun/podrun/test/patience"
	"github.com/podrun/podrun/test/ring"
)

// longPod has a name, a label and an image that are longer than 40 columns.
const longPod = `apiVersion: v1
kind: Pod
metadata: {name: a-pod-with-a-name-that-is-longer-than-a-narrow-terminal, labels: {app.example.com/component: a-value-that-is-long-as-well}}
spec:
  dnsPolicy: Default
  terminationGracePeriodSeconds: 0
  containers: [{name: app, image: "registry.example/some/where/in/a/deep/path/app:1"}, {name: other, image: "registry.example/app:1"}]
`

// TestTerminalWidths runs commands in terminals of three widths. No line may be wider than the
// terminal, because the terminal would wrap it.
func TestTerminalWidths(t *testing.T) {
	ring.Require(t, 2)
	if _, err := exec.LookPath("tmux"); err != nil || os.Geteuid() != 0 {
		t.Skip("no tmux, or not root")
	}
	for _, width := range []int{40, 80, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			w := newTerminal(t, width)
			seen := make(chan struct{})
			w.race.runtime.AddRemote(critest.Image{Name: "registry.example/some/where/in/a/deep/path/app:1", Entrypoint: []string{"/server"}, PullUntil: seen})
			w.run("apply --allow-kubelet pod.yaml", `pulling, [1-9]\d*s`)
			close(seen)
			done := w.run("apply --allow-kubelet pod.yaml", "exit code 0")
			w.contains(done, "Pulled", "Started", "pod/a-pod")
			table := w.run("get", "exit code 0")
			w.contains(table, "NAME")
			if cut := strings.Contains(table, "…"); cut != (width < 100) {
				t.Errorf("cut: %v\n%s", cut, table)
			}
			w.contains(w.run("describe", "exit code 0"), "Name:", "deep/path/app:1", "Events:")
			w.contains(w.run("doctor", `exit code \d+`), "pass", " on this host")
		})
	}
	t.Run("colors", func(t *testing.T) {
		w := newTerminal(t, 200)
		w.run("apply -q --allow-kubelet web.yaml", "exit code 0")
		w.run("get", "exit code 0")
		const colored = "\x1b[32mRunning"
		if text := w.capture("-e"); !strings.Contains(text, colored) {
			t.Errorf("no color: %q", text)
		}
		for _, plain := range []string{"get --color=never", "get | cat"} {
			w.run(plain, "exit code 0")
			if text := w.capture("-e"); !strings.Contains(text, "Running") || strings.Contains(text, colored) {
				t.Errorf("%s: %q", plain, text)
			}
		}
		w.run("get --color=always | cat", "exit code 0")
		if text := w.capture("-e"); !strings.Contains(text, colored) {
			t.Errorf("--color=always: %q", text)
		}
	})
}

// TestPruneAsks checks that image prune, on a terminal, lists the images and removes them only if
// the user answers yes. After any other answer, the end of the input or Ctrl-C, it must keep them.
func TestPruneAsks(t *testing.T) {
	ring.Require(t, 2)
	if _, err := exec.LookPath("tmux"); err != nil || os.Geteuid() != 0 {
		t.Skip("no tmux, or not root")
	}
	w := newTerminal(t, 80)
	const unused = "registry.example/unused:1"
	w.race.runtime.AddImage(critest.Image{Name: unused, Entrypoint: []string{"/server"}, Size: 5e6})
	for _, answer := range []struct {
		keys []string
		want string
		kept bool
	}{
		{[]string{"n", "Enter"}, "exit code 0", true},
		{[]string{"Enter"}, "exit code 0", true},
		{[]string{"x", "Enter"}, "exit code 0", true},
		{[]string{"C-d"}, "exit code 0", true},
		{[]string{"C-c"}, "exit code 130", true},
		{[]string{"y", "Enter"}, `unused:1 removed[\s\S]* freed\s+exit code 0`, false},
	} {
		// The next call must run the same command line again.
		w.last = ""
		screen := w.run("image prune --all", `\[y/N\]`)
		w.contains(screen, unused, "5.0MB", "Remove 2 images, ")
		w.tmux(append([]string{"send-keys"}, answer.keys...)...)
		w.run("image prune --all", answer.want)
		if list, _ := w.race.run("", "image", "ls", "-o", "name"); strings.Contains(list, unused) != answer.kept {
			t.Errorf("%v: kept: %v\n%s", answer.keys, !answer.kept, list)
		}
	}
	w.race.runtime.AddImage(critest.Image{Name: unused, Entrypoint: []string{"/server"}, Size: 5e6})
	if out := w.run("image prune --all --force", "exit code 0"); strings.Contains(out, "[y/N]") || !strings.Contains(out, unused+" removed") {
		t.Errorf("--force:\n%s", out)
	}
}

// terminal is a terminal of a certain width, in a separate tmux.
type terminal struct {
	t     *testing.T
	race  *race
	dir   string
	width int
	env   []string
	began bool
	last  string // the current or last command line
}

func newTerminal(t *testing.T, width int) *terminal {
	t.Helper()
	w := &terminal{t: t, race: newRace(t), dir: t.TempDir(), width: width}
	w.env = append([]string{"TMUX_TMPDIR=" + w.dir, "TERM=xterm", "LANG=C.UTF-8"}, w.race.env...)
	web := strings.NewReplacer("a-pod-with-a-name-that-is-longer-than-a-narrow-terminal", "web", "some/where/in/a/deep/path/", "").Replace(longPod)
	for name, text := range map[string]string{"pod.yaml": longPod, "web.yaml": web} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if w.began {
			w.tmux("kill-server")
		}
	})
	return w
}

// tmux runs a command of tmux and returns its output.
func (w *terminal) tmux(args ...string) string {
	w.t.Helper()
	c := exec.Command("tmux", append([]string{"-f", "/dev/null", "-u"}, args...)...)
	c.Env, c.Dir = w.env, w.dir
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("tmux %s: %v\n%s", args, err, out)
	}
	return string(out)
}

// run runs podrun in the terminal until the screen matches. If the command line is the same as
// before, run does not start it again, and continues to wait. It returns the screen, and fails if
// the terminal has wrapped a line.
func (w *terminal) run(line, until string) string {
	w.t.Helper()
	if w.last != line {
		script := w.race.program + " " + line + "; echo exit code $?; exec sleep 1000"
		if w.began {
			w.tmux("clear-history")
			w.tmux("respawn-window", "-k", script)
		} else {
			w.tmux("new-session", "-d", "-x", fmt.Sprint(w.width), "-y", "100", script)
			w.began = true
		}
		w.last = line
	}
	pattern := regexp.MustCompile(until)
	var text string
	patience.Wait(w.t, patience.OnFake, fmt.Sprintf("podrun %s: no %q", line, until), func() bool {
		text = w.capture("-J")
		return pattern.MatchString(text)
	})
	for l := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(l, " \n")); n > w.width {
			w.t.Errorf("podrun %s: a line of %d in %d columns: %s", line, n, w.width, l)
		}
	}
	return text
}

// capture returns the screen and the scrollback of the terminal.
func (w *terminal) capture(how string) string {
	w.t.Helper()
	return w.tmux("capture-pane", "-p", how, "-S", "-1000")
}

// contains checks whether the screen contains a text. It ignores line breaks.
func (w *terminal) contains(text string, parts ...string) {
	w.t.Helper()
	joined := strings.Join(strings.Fields(text), " ")
	for _, part := range parts {
		if !strings.Contains(joined, strings.TrimSpace(part)) && !strings.Contains(strings.ReplaceAll(joined, " ", ""), part) {
			w.t.Errorf("%d columns: no %q in:\n%s", w.width, part, text)
		}
	}
}
