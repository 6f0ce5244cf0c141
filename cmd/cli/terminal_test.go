package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

var tableNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// hostile has everything that a terminal would interpret: a title by OSC and BEL, a carriage
// return, a line that imitates podrun's, CSI as ESC [ and as U+009B, DEL, a byte that is CSI in
// Latin-1, a backspace.
const hostile = "a\x1b]0;title\x07b\rc\npodrun: forged\n\x1b[2Jd\u009b31me\x7ff\x9bg\bh\ti"

// TestD4NothingSteersTheTerminal covers text from containers, registries, manifests and other
// processes. podrun must escape it wherever it prints it, and no line of it may look like a
// line of podrun.
func TestD4NothingSteersTheTerminal(t *testing.T) {
	pod := corev1.Pod{}
	pod.Name, pod.Namespace = "web", "default"
	pod.Annotations = map[string]string{"a": "\x1b[2J\u009b"}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "\x1b[2J\u009b\x07\x9b", Command: []string{"\x1b[2J\u009b"}}}
	pod.Status.Reason = "\x1b[2J\u009b\nweb2   1/1   Running"
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{Reason: hostile, Message: hostile}}}}
	hit := event.Event{Type: event.Warning, Reason: event.UnhealthyContainer, FieldPath: "spec.containers{app}", Message: "Readiness probe failed: " + hostile}
	pull := event.Event{Reason: event.PullProgress, Message: hostile, Pull: &event.Pull{Image: hostile, State: event.Pulling}}
	wrong := problem.List{{Object: "Pod default/web", Message: "port 80 is held by " + hostile, Hint: hostile}}
	failed := &problem.Error{Kind: problem.Image, Object: "image " + hostile, Err: errors.New("status line " + hostile), Hint: hostile}
	for name, print := range map[string]func(a *App){
		"event":       func(a *App) { a.MessageRenderer().Event(hit) },
		"pull":        func(a *App) { r := a.MessageRenderer(); r.W.Write([]byte(r.line(pull) + "\n")) },
		"warning":     func(a *App) { a.MessageRenderer().Warn(wrong) },
		"error":       func(a *App) { PrintError(a.Streams.Err, failed) },
		"plain error": func(a *App) { PrintError(a.Streams.Err, errors.New(hostile)) },
		"table": func(a *App) {
			view.PodTable(a.Streams.Out, view.Screen{}, []corev1.Pod{pod}, view.TableOptions{Wide: true, Now: tableNow})
		},
		"describe": func(a *App) {
			view.DescribePod(a.Streams.Out, view.Screen{}, &pod, []event.Event{hit}, time.Time{}, tableNow)
		},
		"JSON talk": func(a *App) {
			a.Output = "json"
			r := a.MessageRenderer()
			r.Event(hit)
			r.Warn(wrong)
			printErrorJSON(a.Streams.Err, failed)
		},
		"JSON": func(a *App) { view.PrintData(a.Raw.Out, "json", pod) },
		"YAML": func(a *App) { view.PrintData(a.Raw.Out, "yaml", pod) },
	} {
		var out bytes.Buffer
		print(New(Streams{Out: &out, Err: &out}))
		text := out.String()
		if text == "" {
			t.Errorf("%s: nothing was printed", name)
		}
		if strings.ContainsFunc(text, view.ControlsTerminal) || !utf8.ValidString(text) {
			t.Errorf("%s controls the terminal: %q", name, text)
		}
		for line := range strings.Lines(text) {
			// kubectl's describe splits messages into lines, as does podrun's.
			if name != "describe" && (strings.Contains(line, "forged") || strings.HasPrefix(line, "web2")) &&
				!strings.HasPrefix(line, "        ") && !strings.Contains(line, `\n`) && name != "error" {
				t.Errorf("%s: a line looks like one of podrun's: %q", name, line)
			}
		}
	}
}

// TestDataStreamsAreRaw checks that the output of containers reaches the terminal unchanged.
func TestDataStreamsAreRaw(t *testing.T) {
	var out bytes.Buffer
	a := New(Streams{Out: &out, Err: &out})
	a.Raw.Out.Write([]byte(hostile))
	a.Raw.Err.Write([]byte(hostile))
	if out.String() != hostile+hostile {
		t.Errorf("%q", out.String())
	}
}
