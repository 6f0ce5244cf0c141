package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
)

// WithCause adds the cause of a canceled context to an error, because it is more specific than "context canceled".
func WithCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) && !errors.Is(err, cause) {
		return errors.Join(err, cause)
	}
	return err
}

// PrintErrors writes an error; if it joins several errors, it writes each of them. The format
// is text, JSON with -o json, or annotations with -o github.
func (a *App) PrintErrors(err error) {
	problem.Each(err, func(e error) {
		e = suggest(a, e)
		switch {
		case a.JSONMessages:
			printErrorJSON(a.Streams.Err, e)
			return
		case a.Workflow != nil:
			a.Workflow.EndGroup()
			annotateError(a, e)
			return
		}
		var text strings.Builder
		PrintError(&text, e)
		a.PrintColored(text.String())
	})
}

// messageHues are the words with which messages begin, and their colors.
var messageHues = []struct {
	word string
	hue  view.Hue
}{{"podrun:", view.Red}, {"hint:", view.Yellow}, {"warning:", view.Yellow}}

// PrintColored writes lines to stderr, and colors the words of messageHues at their beginning.
func (a *App) PrintColored(text string) {
	s := a.ScreenOf(a.ErrTerminal)
	if !s.Color || a.rawTerminal.Load() {
		fmt.Fprint(a.Streams.Err, text)
		return
	}
	for line := range strings.Lines(view.Escape(text)) {
		for _, m := range messageHues {
			if rest, ok := strings.CutPrefix(line, m.word+" "); ok {
				line = s.Paint(m.word, m.hue) + " " + rest
			}
		}
		fmt.Fprint(a.Raw.Err, line)
	}
}

// PrintError writes one error as text: one line per problem, then the hint.
func PrintError(w io.Writer, err error) {
	text := view.ShownText(err.Error())
	if _, ok := errors.AsType[*problem.Error](err); ok {
		for line := range strings.Lines(text) {
			fmt.Fprintln(w, "podrun:", strings.TrimRight(line, "\n"))
		}
	} else {
		fmt.Fprintln(w, "podrun:", view.Indented(text))
	}
	if hint := exit.HintFor(err); hint != "" {
		fmt.Fprintln(w, "hint:", view.Indented(hint))
	}
}

// errorLine is an error in the JSON lines on stderr.
type errorLine struct {
	Error    string       `json:"error"`
	Hint     string       `json:"hint,omitempty"`
	ExitCode int          `json:"exitCode"`
	Reason   string       `json:"reason"`
	Problems problem.List `json:"problems,omitempty"`
}

// printErrorJSON writes an error as one line of JSON.
func printErrorJSON(w io.Writer, err error) {
	code := exit.Code(err)
	line := errorLine{Error: view.ShownText(err.Error()), Hint: exit.HintFor(err), ExitCode: code, Reason: exit.Reason(code)}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		line.Problems = view.ShownProblems(e.Problems)
	}
	if data, err := json.Marshal(line); err == nil {
		fmt.Fprintf(w, "%s\n", view.EscapeJSON(data))
	}
}
