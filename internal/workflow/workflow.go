// Package workflow writes the output of a step of a GitHub workflow: podrun's text, groups and annotations, and the
// output of containers. It ensures that the runner finds no workflow commands in the output of containers.
//
// The runner (actions/runner, src/Runner.Common/ActionCommand.cs) finds a command in each line of stdout and stderr
// that begins with "::" after white space, or that contains "##[". It reads the two streams concurrently. Only the
// output to one stream keeps its order, so everything must go to one stream.
package workflow

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Level is the severity of an annotation. It is also the name of the workflow command.
type Level string

// The levels that podrun uses.
const (
	Error   Level = "error"
	Warning Level = "warning"
)

// Annotation is a message that has a position in a file of the repository. All fields except
// Message may be zero.
type Annotation struct {
	File    string
	Line    int // line number, counted from 1
	Title   string
	Message string
}

// maxTitle is the maximum length of an annotation's title in characters (GitHub's REST API for
// check runs).
const maxTitle = 255

// Writer writes to the stream that the runner reads. Its methods can be called concurrently. After
// a write has failed, it writes nothing more.
type Writer struct {
	mu  sync.Mutex
	out io.Writer
	err error
	// token ends the effect of stop-commands. It is empty while the runner processes commands.
	token   string
	grouped bool
	midLine bool
}

// NewWriter returns a Writer for the standard output of a step.
func NewWriter(out io.Writer) *Writer { return &Writer{out: out} }

// writerFunc is an io.Writer that calls a function.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Text returns a writer for podrun's own text. This may include text of containers, such as the
// output of a probe. It changes lines that the runner would process as commands. The data of each
// write must end with a complete line.
func (w *Writer) Text() io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.print(disarm(string(p)))
		return len(p), w.err
	})
}

// Foreign returns a writer for the output of containers. Before the output, the writer makes the
// runner stop processing commands until the runner reads a random token. Therefore, the writer need
// not change the output.
func (w *Writer) Foreign() io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.token == "" {
			// Each token is used once, because a container may be able to read this stream.
			token := rand.Text()
			w.line("::stop-commands::" + token)
			w.token = token
		}
		w.print(string(p))
		return len(p), w.err
	})
}

// Group begins a group, which the log viewer collapses. It first ends the current group, because
// groups cannot be nested.
func (w *Writer) Group(title string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endGroup()
	w.line("::group::" + escapeData(title))
	w.grouped = true
}

// EndGroup ends the current group. It has no effect if no group has begun.
func (w *Writer) EndGroup() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endGroup()
}

// Annotate writes an annotation.
func (w *Writer) Annotate(level Level, a Annotation) {
	var properties []string
	add := func(name, value string) { properties = append(properties, name+"="+escapeProperty(value)) }
	if a.File != "" {
		add("file", a.File)
		if a.Line > 0 {
			add("line", fmt.Sprint(a.Line))
		}
	}
	if title := []rune(a.Title); len(title) > 0 {
		add("title", string(title[:min(len(title), maxTitle)]))
	}
	command := string(level)
	if len(properties) > 0 {
		command += " " + strings.Join(properties, ",")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resume()
	w.line("::" + command + "::" + escapeData(a.Message))
}

func (w *Writer) endGroup() {
	w.resume()
	if w.grouped {
		w.line("::endgroup::")
		w.grouped = false
	}
}

// resume lets the runner process commands again.
func (w *Writer) resume() {
	if w.token != "" {
		w.line("::" + w.token + "::")
		w.token = ""
	}
}

// line writes a workflow command on a line of its own.
func (w *Writer) line(text string) {
	if w.midLine {
		text = "\n" + text
	}
	w.print(text + "\n")
}

func (w *Writer) print(text string) {
	if w.err != nil || text == "" {
		return
	}
	_, w.err = io.WriteString(w.out, text)
	w.midLine = !strings.HasSuffix(text, "\n")
}

// disarm inserts a backslash into those lines of a text that the runner would process as commands. The runner
// escapes its own markers in the output of steps in the same way.
func disarm(text string) string {
	if !strings.Contains(text, "::") && !strings.Contains(text, "##[") {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(line, "##[", `##\[`)
		if at := strings.Index(line, "::"); at >= 0 && !strings.ContainsFunc(line[:at], isGraphicASCII) {
			line = line[:at] + `\` + line[at:]
		}
		b.WriteString(line)
	}
	return b.String()
}

// isGraphicASCII reports whether r is a visible ASCII character. If a line begins with other
// characters before "::", the runner may still find a command: it skips white space, and its
// culture-dependent comparison of strings ignores some characters outside ASCII.
func isGraphicASCII(r rune) bool { return r > ' ' && r < 0x7f }

var (
	dataEscapes     = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	propertyEscapes = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)

func escapeData(text string) string     { return dataEscapes.Replace(text) }
func escapeProperty(text string) string { return propertyEscapes.Replace(text) }
