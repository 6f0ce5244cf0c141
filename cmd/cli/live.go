package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/event"
)

// Without a terminal, podrun prints the progress of a pull at these intervals. It prints the first line after
// printAfter, and a further line after each 10 %, but not sooner than printTenth and not later than printEvery after
// the previous line. For a pull that is shorter than printAfter, it prints no progress.
const (
	printAfter = 3 * time.Second
	printTenth = 2 * time.Second
	printEvery = 15 * time.Second
)

// Without a terminal, podrun prints the progress of the stop of a container for the first time after printStopAfter,
// and then each time the duration of the stop has doubled.
const printStopAfter = 5 * time.Second

// live shows the progress of running pulls and stops. On a terminal, it shows one line for each, and
// redraws the lines below all other output. Otherwise it prints occasional lines. The zero
// value is for output without a terminal. The renderer's mutex guards it.
type live struct {
	terminal *os.File // nil without a terminal
	lines    []liveLine
	drawn    int                     // lines on the terminal now
	lineOpen bool                    // other output has begun a line and not completed it
	printed  map[liveKey]printedPull // used without a terminal
	// stops contains, for each stop, the duration after which to print the next line; used without a terminal.
	stops map[liveKey]time.Duration
}

// liveKey is one pull or, if image is "", the stop of one container.
type liveKey struct{ uid, fieldPath, image string }

type liveLine struct {
	key           liveKey
	name, message string
}

// printedPull is the last printed state of a pull.
type printedPull struct {
	at     time.Time
	tenth  int64
	state  event.PullState
	silent bool // nothing has been printed yet
}

func keyOf(e event.Event) liveKey {
	key := liveKey{uid: e.UID, fieldPath: e.FieldPath}
	if e.Pull != nil {
		key.image = e.Pull.Image
	}
	return key
}

// isProgress reports whether an event is the progress of a pull or stop, and whether that has ended.
func isProgress(e event.Event) (progress, ended bool) {
	switch {
	case e.Pull != nil:
		return true, e.Pull.State == event.PullEnded
	case e.Stop != nil:
		return true, e.Stop.State == event.StopEnded
	}
	return false, false
}

// due reports whether the progress should be shown now.
func (l *live) due(e event.Event) bool {
	if l.terminal != nil {
		return true
	}
	key := keyOf(e)
	if _, ended := isProgress(e); ended {
		delete(l.printed, key)
		delete(l.stops, key)
		return false
	}
	if e.Stop != nil {
		return l.stopDue(key, e.Stop.Elapsed)
	}
	if l.printed == nil {
		l.printed = map[liveKey]printedPull{}
	}
	last, known := l.printed[key]
	if !known {
		l.printed[key] = printedPull{at: e.Time, silent: true}
		return false
	}
	now := printedPull{at: e.Time, tenth: e.Pull.Percent() / 10, state: e.Pull.State}
	since := now.at.Sub(last.at)
	switch {
	case last.silent && since < printAfter:
		return false
	case last.silent, since >= printEvery, since >= printTenth && (now.tenth > last.tenth || now.state != last.state):
		l.printed[key] = now
		return true
	}
	return false
}

// stopDue reports whether the progress of a stop should be printed now.
func (l *live) stopDue(key liveKey, elapsed time.Duration) bool {
	if l.stops == nil {
		l.stops = map[liveKey]time.Duration{}
	}
	next := max(l.stops[key], printStopAfter)
	if elapsed < next {
		return false
	}
	for next <= elapsed {
		next *= 2
	}
	l.stops[key] = next
	return true
}

// keep stores the line of a pull or stop, or removes it if that has ended.
func (l *live) keep(e event.Event, who string) {
	key := keyOf(e)
	_, ended := isProgress(e)
	name := strings.TrimSuffix(who, ": ")
	if e.Pull != nil {
		name = who + e.Pull.Image
	}
	at := slices.IndexFunc(l.lines, func(line liveLine) bool { return line.key == key })
	switch line := (liveLine{key, view.OneLine(name), view.OneLine(e.Message)}); {
	case ended && at >= 0:
		l.lines = slices.Delete(l.lines, at, at+1)
	case ended:
	case at >= 0:
		l.lines[at] = line
	default:
		l.lines = append(l.lines, line)
	}
}

// erase removes the lines from the terminal, so that others can write.
func (l *live) erase() {
	if l.drawn > 0 {
		fmt.Fprintf(l.terminal, "\x1b[%dA\r\x1b[J", l.drawn)
		l.drawn = 0
	}
}

// draw writes the lines to the terminal: as many as fit, each truncated to its width.
func (l *live) draw() {
	if l.terminal == nil || l.lineOpen || len(l.lines) == 0 || l.drawn > 0 {
		return
	}
	width, height := SizeOf(l.terminal)
	var b strings.Builder
	for _, line := range l.lines {
		if l.drawn == height-2 && len(l.lines) > height-1 {
			b.WriteString(view.Screen{Width: width - 1}.Line([]view.Cell{{Text: fmt.Sprintf("and %d more", len(l.lines)-l.drawn), Hue: view.Plain}}) + "\n")
			l.drawn++
			break
		}
		b.WriteString(view.FitProgress(line.name, line.message, width-1) + "\n")
		l.drawn++
	}
	io.WriteString(l.terminal, b.String())
}

// SizeOf returns the current size of a terminal.
func SizeOf(terminal *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 { // a serial line
		return 80, 24
	}
	return int(size.Col), max(int(size.Row), 4)
}

// TerminalOf returns w if it is a terminal that supports escape sequences, else nil.
func TerminalOf(w io.Writer) *os.File {
	if os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return nil
	}
	return isTerminal(w)
}

// TextRenderer returns the renderer for the warnings of a command that reports no events.
func (a *App) TextRenderer() *Renderer {
	r := &Renderer{W: a.Streams.Err}
	if a.Workflow != nil {
		r.annotate = a.annotateWarnings
	}
	return r
}

// MessageRenderer returns the renderer for a command's messages. On a terminal, it wraps the
// command's streams, so that their output and the progress of pulls do not overwrite each
// other.
func (a *App) MessageRenderer() *Renderer {
	stderr := a.Raw.Err // the renderer erases and draws these lines itself
	r := &Renderer{W: view.TextWriter{To: &stderr, Raw: &a.rawTerminal}, Json: a.Output == "json", Quiet: a.Quiet}
	if r.Json {
		return r
	}
	if a.Workflow != nil {
		r.annotate = a.annotateWarnings
	}
	r.raw, r.screen = stderr, func() view.Screen { return a.ScreenOf(a.ErrTerminal) }
	if r.live.terminal = TerminalOf(a.Raw.Err); r.live.terminal != nil {
		a.Raw.Err = &progressWriter{r, a.Raw.Err}
		if TerminalOf(a.Raw.Out) != nil {
			a.Raw.Out = &progressWriter{r, a.Raw.Out}
		}
	}
	return r
}

// progressWriter writes to the terminal on which a renderer draws.
type progressWriter struct {
	r *Renderer
	w io.Writer
}

// Write erases the progress of pulls, writes p, and draws the progress again.
func (b *progressWriter) Write(p []byte) (int, error) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	b.r.live.erase()
	n, err := b.w.Write(p)
	b.r.live.lineOpen = n > 0 && !bytes.HasSuffix(p[:n], []byte("\n"))
	b.r.live.draw()
	return n, err
}
