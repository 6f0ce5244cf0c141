package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

// ResourceList is a List of objects of several kinds.
type ResourceList struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   struct{} `json:"metadata"`
	Items      []any    `json:"items"`
}

// CheckOutput rejects a value of -o that the command does not support.
func CheckOutput(given string, known ...string) error {
	if given == "" || slices.Contains(known, given) {
		return nil
	}
	err := &problem.Error{Kind: problem.Usage, Err: fmt.Errorf("-o %s is not one of %s", given, strings.Join(known, ", ")), Hint: "use -o " + known[0]}
	if given == "wide" || strings.Contains(given, "=") {
		err.Hint = "use -o " + known[0] + "; 'podrun get -o " + given + "' supports this output"
	}
	return err
}

// Renderer writes each event when it happens, as a line of text or, with -o json, as a
// JSON object. Events go to stderr, which is for messages; the JSON summary goes to stdout.
type Renderer struct {
	mu   sync.Mutex
	W    io.Writer
	Json bool
	// raw is w without escaping, and screen returns the screen to which lines are fitted. Both are
	// nil if the renderer writes lines unchanged.
	raw    io.Writer
	screen func() view.Screen
	// SeveralPods is set if the command processes several pods: each line then includes the pod's
	// name.
	SeveralPods bool
	// Quiet omits events.
	Quiet bool
	// live shows the running pulls and stops.
	live live
	// repeats counts recurring events.
	repeats view.Repeats
	// sinks also receive all events.
	sinks []event.Sink
	// annotate, if not nil, writes warnings as annotations.
	annotate func(problem.List)
}

// Also adds a sink, which receives all events. Call it before the first event.
func (r *Renderer) Also(sink event.Sink) { r.sinks = append(r.sinks, sink) }

// Event renders one event; it is an event.Sink.
func (r *Renderer) Event(e event.Event) {
	for _, sink := range r.sinks {
		sink(e)
	}
	if r.Quiet {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	progress, _ := isProgress(e)
	if progress && !r.live.due(e) || e.Repeats && !r.Json {
		return
	}
	e.Message = event.Cut(e.Message)
	e, due := r.repeats.Due(e)
	if !due {
		return
	}
	r.live.erase()
	defer r.live.draw()
	switch data, err := json.Marshal(e); {
	case progress && r.live.terminal != nil:
		r.live.keep(e, r.object(e))
	case r.Json && err == nil:
		fmt.Fprintf(r.W, "%s\n", view.EscapeJSON(data))
	case !r.Json:
		r.println(r.line(e), e.Type)
	}
}

// println writes a line. If it begins with status, println colors that word.
func (r *Renderer) println(text, status string) {
	if r.screen == nil {
		fmt.Fprintln(r.W, text)
		return
	}
	s := r.screen()
	text = s.Wrap(view.Escape(text))
	if rest, ok := strings.CutPrefix(text, status); ok {
		text = s.Paint(status, view.HueOf(status)) + rest
	}
	fmt.Fprintln(r.raw, text)
}

func (r *Renderer) line(e event.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s%-23s %s", e.Type, e.Reason, r.object(e))
	if e.Pull != nil {
		b.WriteString(view.OneLine(e.Pull.Image) + ": ")
	}
	b.WriteString(view.Indented(e.Message) + view.Times(e))
	return b.String()
}

// object names the object of an event, as the prefix of a line.
func (r *Renderer) object(e event.Event) string {
	if e.Kind != "" {
		return strings.ToLower(e.Kind) + " " + e.Namespace + "/" + e.Name + ": "
	}
	who := ""
	if r.SeveralPods {
		who = e.Namespace + "/" + e.Pod + " "
	}
	if name := view.ContainerOf(e.FieldPath); name != "" {
		who += name + ": "
	}
	return who
}

// Warn writes warnings, one line each.
func (r *Renderer) Warn(l problem.List) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.erase()
	defer r.live.draw()
	if r.annotate != nil {
		r.annotate(l)
		return
	}
	for _, p := range view.ShownProblems(l) {
		if r.Json {
			if data, err := json.Marshal(p); err == nil {
				fmt.Fprintf(r.W, "%s\n", view.EscapeJSON(data))
			}
			continue
		}
		r.println("warning: "+view.Indented(p.String()), "warning:")
	}
}

// Note writes a line that is not a warning to stderr, unless quiet is set.
func (r *Renderer) Note(text string) {
	if !r.Quiet {
		r.Print(text)
	}
}

// Print writes a line that is not a warning to stderr.
func (r *Renderer) Print(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.erase()
	defer r.live.draw()
	if !r.Json {
		r.println(view.OneLine(text), "")
	} else if data, err := json.Marshal(map[string]string{"message": text}); err == nil {
		fmt.Fprintf(r.W, "%s\n", view.EscapeJSON(data))
	}
}

// ListOf returns the list that kubectl would print.
func ListOf(pods []corev1.Pod) *corev1.PodList {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: pods}
	if list.Items == nil {
		list.Items = []corev1.Pod{}
	}
	return list
}
