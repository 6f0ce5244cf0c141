package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
	"github.com/podrun/podrun/internal/problem"
)

// checkOutput rejects a value of -o that the command does not support.
func checkOutput(given string, known ...string) error {
	if given == "" || slices.Contains(known, given) {
		return nil
	}
	err := &problem.Error{Kind: problem.Usage, Err: fmt.Errorf("-o %s is not one of %s", given, strings.Join(known, ", ")), Hint: "use -o " + known[0]}
	if given == "wide" || strings.Contains(given, "=") {
		err.Hint = "use -o " + known[0] + "; 'podrun get -o " + given + "' supports this output"
	}
	return err
}

// renderer writes each event when it happens, as a line of text or, with -o json, as a
// JSON object. Events go to stderr, which is for messages; the JSON summary goes to stdout.
type renderer struct {
	mu   sync.Mutex
	w    io.Writer
	json bool
	// raw is w without escaping, and screen returns the screen to which lines are fitted. Both are
	// nil if the renderer writes lines unchanged.
	raw    io.Writer
	screen func() view.Screen
	// severalPods is set if the command processes several pods: each line then includes the pod's
	// name.
	severalPods bool
	// quiet omits events.
	quiet bool
	// live shows the running pulls and stops.
	live live
	// repeats counts recurring events.
	repeats view.Repeats
	// sinks also receive all events.
	sinks []event.Sink
	// annotate, if not nil, writes warnings as annotations.
	annotate func(problem.List)
}

// also adds a sink, which receives all events. Call it before the first event.
func (r *renderer) also(sink event.Sink) { r.sinks = append(r.sinks, sink) }

// event renders one event; it is an event.Sink.
func (r *renderer) event(e event.Event) {
	for _, sink := range r.sinks {
		sink(e)
	}
	if r.quiet {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	progress, _ := isProgress(e)
	if progress && !r.live.due(e) || e.Repeats && !r.json {
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
	case r.json && err == nil:
		fmt.Fprintf(r.w, "%s\n", view.EscapeJSON(data))
	case !r.json:
		r.println(r.line(e), e.Type)
	}
}

// println writes a line. If it begins with status, println colors that word.
func (r *renderer) println(text, status string) {
	if r.screen == nil {
		fmt.Fprintln(r.w, text)
		return
	}
	s := r.screen()
	text = s.Wrap(view.Escape(text))
	if rest, ok := strings.CutPrefix(text, status); ok {
		text = s.Paint(status, view.HueOf(status)) + rest
	}
	fmt.Fprintln(r.raw, text)
}

func (r *renderer) line(e event.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s%-23s %s", e.Type, e.Reason, r.object(e))
	if e.Pull != nil {
		b.WriteString(view.OneLine(e.Pull.Image) + ": ")
	}
	b.WriteString(view.Indented(e.Message) + view.Times(e))
	return b.String()
}

// object names the object of an event, as the prefix of a line.
func (r *renderer) object(e event.Event) string {
	if e.Kind != "" {
		return strings.ToLower(e.Kind) + " " + e.Namespace + "/" + e.Name + ": "
	}
	who := ""
	if r.severalPods {
		who = e.Namespace + "/" + e.Pod + " "
	}
	if name := view.ContainerOf(e.FieldPath); name != "" {
		who += name + ": "
	}
	return who
}

// warn writes warnings, one line each.
func (r *renderer) warn(l problem.List) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.erase()
	defer r.live.draw()
	if r.annotate != nil {
		r.annotate(l)
		return
	}
	for _, p := range view.ShownProblems(l) {
		if r.json {
			if data, err := json.Marshal(p); err == nil {
				fmt.Fprintf(r.w, "%s\n", view.EscapeJSON(data))
			}
			continue
		}
		r.println("warning: "+view.Indented(p.String()), "warning:")
	}
}

// note writes a line that is not a warning to stderr, unless quiet is set.
func (r *renderer) note(text string) {
	if !r.quiet {
		r.print(text)
	}
}

// print writes a line that is not a warning to stderr.
func (r *renderer) print(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.erase()
	defer r.live.draw()
	if !r.json {
		r.println(view.OneLine(text), "")
	} else if data, err := json.Marshal(map[string]string{"message": text}); err == nil {
		fmt.Fprintf(r.w, "%s\n", view.EscapeJSON(data))
	}
}
