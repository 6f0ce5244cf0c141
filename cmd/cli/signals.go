package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
)

// Working returns run.Targets.Working for a command; see TrackWork for undo.
func (a *App) Working(r *Renderer, node *run.Node, undo time.Duration) func([]identity.Pod) {
	return func(pods []identity.Pod) {
		r.SeveralPods = len(pods) > 1
		a.TrackWork(r, node, pods, undo)
	}
}

// Two equal signals within an interval count as one: timeout(1) signals its child and, about 0.2 ms later, its
// process group. On a busy host, podrun may handle the second signal much later than it was sent. Ctrl-C has a
// shorter interval, because a user may press it twice to abandon the command.
const (
	duplicateInterval = time.Second
	keyInterval       = 100 * time.Millisecond
)

// verdict is the effect of a signal, which depends on the previous signals.
type verdict string

const (
	stopWork    verdict = "stop"    // the first one: the command rolls back
	speedUp     verdict = "hurry"   // a SIGKILL will follow soon
	abandonWork verdict = "abandon" // the user does not want to wait
	noEffect    verdict = "ignore"
)

// interrupts records the signals received so far.
type interrupts struct {
	keys bool // true if SIGINT may come from a keyboard (inForeground)
	seen map[syscall.Signal]bool
	last syscall.Signal
	at   time.Time
}

// verdict returns the effect of a signal. If the same signal is repeated, or if Ctrl-C follows
// any signal, podrun abandons the work. If SIGTERM follows another signal, a SIGKILL will
// follow soon: GitHub's runner sends SIGINT, 7.5 s later SIGTERM, and 2.5 s later SIGKILL. If
// SIGHUP follows another signal, it has no effect: systemd sends one right after SIGTERM if
// SendSIGHUP is set.
func (i *interrupts) verdict(s syscall.Signal, at time.Time) verdict {
	interval := duplicateInterval
	if i.keys && s == syscall.SIGINT {
		interval = keyInterval
	}
	if s == i.last && at.Sub(i.at) < interval {
		return noEffect
	}
	again := i.seen[s]
	if i.seen == nil {
		i.seen = map[syscall.Signal]bool{}
	}
	first := len(i.seen) == 0
	i.seen[s], i.last, i.at = true, s, at
	switch {
	case first:
		return stopWork
	case again || s == syscall.SIGINT:
		return abandonWork
	case s == syscall.SIGTERM:
		return speedUp
	}
	return noEffect
}

// work is the work of a command, which signals interrupt.
type work struct {
	// closed when podrun must stop its pods soon, because a SIGKILL will follow or because no process
	// reads their output; hurry closes it
	SpeedUp chan struct{}
	hurry   func()

	mu            sync.Mutex
	outBroken     func()               // ends the work when the reader of standard output has exited; may be nil
	printStopping func(syscall.Signal) // prints the effect of the first signal; nil if the command stops immediately
	// returns the command's pods that remain on this host; nil if the command leaves none
	remaining func() []string
	restore   func() // restores the terminal; nil if it is unchanged
}

// SetRestore sets the function that restores the terminal if the user abandons the command.
func (w *work) SetRestore(restore func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restore = restore
}

// printLimit is the time limit for messages about a signal, because writes to the
// terminal may block.
const printLimit = time.Second

// CatchSignals returns a context that the first SIGINT, SIGTERM, SIGQUIT or SIGHUP cancels, with the
// signal as the cause. It does not use signal.NotifyContext, because this does not report which
// signal arrived. If SIGHUP was ignored (nohup), it remains ignored; `podrun serve` handles
// SIGHUP itself. The Go runtime would end the process at SIGQUIT, and leave its pods; it still
// prints all goroutines at SIGABRT.
func (a *App) CatchSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 8)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(received, syscall.SIGHUP)
	}
	go func() {
		var before interrupts
		for sig := range received {
			s := sig.(syscall.Signal)
			before.keys = inForeground()
			switch before.verdict(s, time.Now()) {
			case stopWork:
				callWithin(printLimit, func() { printStopping(a, s) })
				before.at = time.Now() // an equal signal may have arrived while podrun printed the message
				cancel(exit.SignalError{Signal: s})
			// podrun speeds up only once: the next SIGTERM abandons the work.
			case speedUp:
				a.Work.hurry()
			case abandonWork:
				a.Work.mu.Lock()
				restore := a.Work.restore
				a.Work.mu.Unlock()
				if restore != nil {
					restore()
				}
				callWithin(printLimit, a.printAbandoned)
				os.Exit(128 + int(s))
			}
		}
	}()
	return ctx, func() { signal.Stop(received); close(received); cancel(nil) }
}

// callWithin calls do and waits for it, but not for longer than limit.
func callWithin(limit time.Duration, do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// TrackWork registers the pods on which the command works, and how long the command may
// continue after a signal. With 0, it stops immediately.
func (a *App) TrackWork(r *Renderer, node *run.Node, pods []identity.Pod, limit time.Duration) {
	a.Work.mu.Lock()
	defer a.Work.mu.Unlock()
	a.Work.remaining = func() []string { return lookup.Remaining(node, pods) }
	if limit == 0 {
		return
	}
	a.Work.printStopping = func(s syscall.Signal) {
		text := fmt.Sprintf("stopping (up to %.0f s)", limit.Seconds())
		if s == syscall.SIGINT {
			text += "; press Ctrl-C again to abandon"
		}
		r.Print(text)
	}
}

func printStopping(a *App, s syscall.Signal) {
	a.Work.mu.Lock()
	announce := a.Work.printStopping
	a.Work.mu.Unlock()
	if announce != nil {
		announce(s)
	}
}

// printAbandoned lists the pods that remain on this host after an abandoned command.
func (a *App) printAbandoned() {
	a.Work.mu.Lock()
	remains := a.Work.remaining
	a.Work.mu.Unlock()
	if remains == nil {
		return
	}
	pods := remains()
	if len(pods) == 0 {
		a.PrintErrors(errors.New("abandoned: no pod of this command remains"))
		return
	}
	a.PrintErrors(&problem.Error{Kind: problem.Failed, Err: errors.New("abandoned; remaining pods: " + strings.Join(pods, ", ")),
		Hint: "run 'podrun get' to show them, or 'podrun delete NAME' to remove them"})
}

// brokenPipes receives SIGPIPE, and nothing reads it. It is one for all commands of a process.
var brokenPipes = make(chan os.Signal, 1)

// SurviveBrokenPipes is for a command that changes pods. If the reader of its output exits
// (podrun restart web | head -3), the command finishes its work, and podrun discards the later
// output. By default, the Go runtime ends a process that writes to a broken pipe on standard
// output or error.
func (a *App) SurviveBrokenPipes() {
	signal.Notify(brokenPipes, syscall.SIGPIPE) // from now on, a write to a broken pipe returns EPIPE
	for w, broken := range map[*io.Writer]func(){&a.Raw.Out: a.Work.readerGone, &a.Raw.Err: func() {}} {
		if TerminalOf(*w) == nil {
			*w = pipe{*w, broken}
		}
	}
}

// EndWithReader is for a command whose output is that of containers. If the reader of standard output
// exits, it cancels the returned context like a signal, and podrun stops the containers soon, since
// they could otherwise write for ever (podrun run busybox yes | head -1).
func (a *App) EndWithReader(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	a.Work.mu.Lock()
	defer a.Work.mu.Unlock()
	a.Work.outBroken = func() {
		cancel(exit.SignalError{Signal: syscall.SIGPIPE})
		a.Work.hurry()
	}
	return ctx, func() { cancel(nil) }
}

// readerGone handles the exit of the reader of standard output.
func (w *work) readerGone() {
	w.mu.Lock()
	end := w.outBroken
	w.mu.Unlock()
	if end != nil {
		end()
	}
}

// pipe discards writes to a broken pipe, and calls broken.
type pipe struct {
	io.Writer
	broken func()
}

// Write reports the length of p, or fewer bytes with an error other than EPIPE.
func (w pipe) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		w.broken()
		return len(p), nil
	}
	return n, err
}
