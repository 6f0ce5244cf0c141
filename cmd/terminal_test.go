package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/host/doctor"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/imagestore"
)

// hostile has everything that a terminal would interpret: a title by OSC and BEL, a carriage
// return, a line that imitates podrun's, CSI as ESC [ and as U+009B, DEL, a byte that is CSI in
// Latin-1, a backspace.
const hostile = "a\x1b]0;title\x07b\rc\npodrun: forged\n\x1b[2Jd\u009b31me\x7ff\x9bg\bh\ti"

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain, ünïcödé 漢字 🙂\n\tline": "plain, ünïcödé 漢字 🙂\n\tline",
		"\x1b[31m":                    "^[[31m",
		"a\rb":                        `a\rb`,
		"\x00\x07\b\x0b":              `\x00\x07\x08\x0b`,
		"\x7f\u0080\u009b":            `\x7f\u0080\u009b`,
		"\x9b31m \xff\xc3":            `\x9b31m \xff\xc3`,
		"\ufffd":                      "\ufffd",
		"\u202e":                      "\u202e", // as in kubectl
	} {
		if got := view.Escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if got := view.Escape(view.Escape(in)); got != want {
			t.Errorf("%q: escaping it twice results in %q", in, got)
		}
	}
	if got := view.OneLine("a\nb\tc\x1b"); got != `a\nb\tc^[` {
		t.Errorf("%q", got)
	}
}

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
	for name, print := range map[string]func(a *app){
		"event":       func(a *app) { a.messageRenderer().event(hit) },
		"pull":        func(a *app) { r := a.messageRenderer(); r.w.Write([]byte(r.line(pull) + "\n")) },
		"warning":     func(a *app) { a.messageRenderer().warn(wrong) },
		"error":       func(a *app) { printError(a.streams.Err, failed) },
		"plain error": func(a *app) { printError(a.streams.Err, errors.New(hostile)) },
		"table": func(a *app) {
			view.PodTable(a.streams.Out, view.Screen{}, []corev1.Pod{pod}, view.TableOptions{Wide: true, Now: tableNow})
		},
		"describe": func(a *app) {
			view.DescribePod(a.streams.Out, view.Screen{}, &pod, []event.Event{hit}, time.Time{}, tableNow)
		},
		"doctor": func(a *app) {
			printDiagnosis(a.streams.Out, view.Screen{}, run.Diagnosis{Findings: []doctor.Finding{{Group: "g", Check: "c", Status: doctor.Fail, Summary: hostile, Fix: hostile}},
				Pods: []run.PodVerdict{{Pod: "default/web", Problems: wrong}}}, false)
		},
		"images": func(a *app) {
			a.printImages([]imagestore.Image{{ID: hostile, Names: []string{hostile}}}, &imageListFlags{})
		},
		"JSON talk": func(a *app) {
			a.output = "json"
			r := a.messageRenderer()
			r.event(hit)
			r.warn(wrong)
			printErrorJSON(a.streams.Err, failed)
		},
		"JSON": func(a *app) { view.PrintData(a.raw.Out, "json", pod) },
		"YAML": func(a *app) { view.PrintData(a.raw.Out, "yaml", pod) },
	} {
		var out bytes.Buffer
		print(newApp(Streams{Out: &out, Err: &out}))
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

// TestDataKeepsItsValue checks the escapes of JSON and YAML, which are lossless. A DEL in a
// termination message once made 'get -o yaml' fail.
func TestDataKeepsItsValue(t *testing.T) {
	in := strings.ToValidUTF8(hostile, "?") + "\u2028\u0085ü\ufeff\ufffe\uffff"
	for _, format := range []string{"json", "yaml"} {
		var out bytes.Buffer
		if err := view.PrintData(&out, format, map[string]string{"message": in}); err != nil {
			t.Fatal(err)
		}
		data := out.Bytes()
		var back map[string]string
		var err error
		if format == "yaml" {
			err = yaml.Unmarshal(data, &back)
		} else {
			err = json.Unmarshal(data, &back)
		}
		if err != nil || back["message"] != in {
			t.Errorf("%s: %q (%v), want %q\n%s", format, back["message"], err, in, data)
		}
	}
}

// TestDataStreamsAreRaw checks that the output of containers reaches the terminal unchanged.
func TestDataStreamsAreRaw(t *testing.T) {
	var out bytes.Buffer
	a := newApp(Streams{Out: &out, Err: &out})
	a.raw.Out.Write([]byte(hostile))
	a.raw.Err.Write([]byte(hostile))
	if out.String() != hostile+hostile {
		t.Errorf("%q", out.String())
	}
}
