package cmd

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podrun/podrun/internal/event"
)

// How often the progress of a pull is printed where there is no terminal: when another tenth is
// done, and after a while in any case. A quick pull prints nothing.
const (
	tellAfter = 3 * time.Second
	tellTenth = 2 * time.Second
	tellEvery = 15 * time.Second
)

// live shows how far the pulls under way are: on a terminal by a line each that
// is drawn again and again below everything else, elsewhere by a line now and
// then. The zero value is for no terminal. It is guarded by its renderer.
type live struct {
	terminal *os.File // nil: none
	lines    []liveLine
	drawn    int                // lines that are on the terminal now
	held     bool               // others have begun a line that they have not ended
	told     map[pullKey]tolled // where there is no terminal
}

// pullKey is one pull.
type pullKey struct{ uid, fieldPath, image string }

type liveLine struct {
	key           pullKey
	name, message string
}

// tolled is the last printed state of a pull.
type tolled struct {
	at     time.Time
	tenth  int64
	state  event.PullState
	silent bool // nothing was printed yet
}

func keyOf(e event.Event) pullKey { return pullKey{e.UID, e.FieldPath, e.Pull.Image} }

// due reports whether a progress is to be shown now.
func (l *live) due(e event.Event) bool {
	if l.terminal != nil {
		return true
	}
	key := keyOf(e)
	if e.Pull.State == event.PullEnded {
		delete(l.told, key)
		return false
	}
	if l.told == nil {
		l.told = map[pullKey]tolled{}
	}
	last, known := l.told[key]
	if !known {
		l.told[key] = tolled{at: e.Time, silent: true}
		return false
	}
	now := tolled{at: e.Time, tenth: e.Pull.Percent() / 10, state: e.Pull.State}
	since := now.at.Sub(last.at)
	switch {
	case last.silent && since < tellAfter:
		return false
	case last.silent, since >= tellEvery, since >= tellTenth && (now.tenth > last.tenth || now.state != last.state):
		l.told[key] = now
		return true
	}
	return false
}

// keep takes what a pull's line is from now on.
func (l *live) keep(e event.Event, who string) {
	key := keyOf(e)
	at := slices.IndexFunc(l.lines, func(line liveLine) bool { return line.key == key })
	switch line := (liveLine{key, oneLine(who + e.Pull.Image), oneLine(e.Message)}); {
	case e.Pull.State == event.PullEnded && at >= 0:
		l.lines = slices.Delete(l.lines, at, at+1)
	case e.Pull.State == event.PullEnded:
	case at >= 0:
		l.lines[at] = line
	default:
		l.lines = append(l.lines, line)
	}
}

// erase takes the lines off the terminal, so that others can write.
func (l *live) erase() {
	if l.drawn > 0 {
		fmt.Fprintf(l.terminal, "\x1b[%dA\r\x1b[J", l.drawn)
		l.drawn = 0
	}
}

// draw puts the lines on the terminal: as many as fit, each cut to
// its width.
func (l *live) draw() {
	if l.terminal == nil || l.held || len(l.lines) == 0 || l.drawn > 0 {
		return
	}
	width, height := sizeOf(l.terminal)
	var b strings.Builder
	for _, line := range l.lines {
		if l.drawn == height-2 && len(l.lines) > height-1 {
			b.WriteString(screen{width: width - 1}.line([]cell{{fmt.Sprintf("and %d more", len(l.lines)-l.drawn), plain}}) + "\n")
			l.drawn++
			break
		}
		b.WriteString(fitPull(line.name, line.message, width-1) + "\n")
		l.drawn++
	}
	io.WriteString(l.terminal, b.String())
}

// sizeOf is a terminal's size, which may change at any time.
func sizeOf(terminal *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(terminal.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 { // a serial line
		return 80, 24
	}
	return int(size.Col), max(int(size.Row), 4)
}

// terminalOf is a stream that is a terminal which understands to be drawn upon;
// nil if it is none.
func terminalOf(w io.Writer) *os.File {
	if os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return nil
	}
	return isTerminal(w)
}

// talk makes the renderer of a command's talk. On a terminal what the command
// writes from then on keeps clear of the lines of pulls.
func (a *app) talk() *renderer {
	stderr := a.raw.Err // the renderer's lines do not pass by itself
	r := &renderer{w: textWriter{&stderr, &a.rawTerminal}, json: a.output == "json"}
	if r.json {
		return r
	}
	r.raw, r.screen = stderr, func() screen { return a.screenOf(a.errTerminal) }
	if r.live.terminal = terminalOf(a.raw.Err); r.live.terminal != nil {
		a.raw.Err = &beside{r, a.raw.Err}
		if terminalOf(a.raw.Out) != nil {
			a.raw.Out = &beside{r, a.raw.Out}
		}
	}
	return r
}

// beside writes to the terminal that a renderer draws on.
type beside struct {
	r *renderer
	w io.Writer
}

// Write writes, with the lines of pulls out of the way.
func (b *beside) Write(p []byte) (int, error) {
	b.r.mu.Lock()
	defer b.r.mu.Unlock()
	b.r.live.erase()
	n, err := b.w.Write(p)
	b.r.live.held = n > 0 && !bytes.HasSuffix(p[:n], []byte("\n"))
	b.r.live.draw()
	return n, err
}
