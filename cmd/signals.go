package cmd

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

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
)

// sameWithin is how close together two equal signals are one: timeout(1) signals its
// child and then its process group, some 0.2 ms later.
const sameWithin = 100 * time.Millisecond

// verdict is what a signal means after those before it.
type verdict string

const (
	stopWork    verdict = "stop"    // the first one: the command rolls back
	hurryWork   verdict = "hurry"   // podrun is about to be killed
	abandonWork verdict = "abandon" // the user does not want to wait
	noNews      verdict = "ignore"
)

// interrupts is the signals so far.
type interrupts struct {
	seen map[syscall.Signal]bool
	last syscall.Signal
	at   time.Time
}

// next decides what a signal means. The same signal again abandons the work, and so
// does Ctrl-C after any. A SIGTERM after another signal comes from what is about to
// kill podrun: GitHub's runner sends SIGINT, 7.5 s later SIGTERM, and 2.5 s later
// SIGKILL. A SIGHUP after another signal means nothing more: systemd sends one right
// after SIGTERM where SendSIGHUP is set.
func (i *interrupts) next(s syscall.Signal, at time.Time) verdict {
	if s == i.last && at.Sub(i.at) < sameWithin {
		return noNews
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
		return hurryWork
	}
	return noNews
}

// work is what signals interrupt.
type work struct {
	hurry chan struct{} // closed when podrun is about to be killed

	mu       sync.Mutex
	stopping func(syscall.Signal) // says what the first signal does; nil if that takes no time
	remains  func() []string      // the pods of the command that are on this host; nil for none
	restore  func()               // makes the terminal as it was; nil if it is
}

// restoresBy sets how the terminal becomes as it was, for a command that is abandoned.
func (w *work) restoresBy(restore func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restore = restore
}

// printLimit bounds what is written at a signal: the terminal may be held up.
const printLimit = time.Second

// catchSignals returns a context that the first SIGINT, SIGTERM or SIGHUP ends, with
// the signal as its cause: signal.NotifyContext cannot distinguish them. SIGHUP stays
// ignored where it was (nohup), and `podrun serve` takes it over.
func (a *app) catchSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 8)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(received, syscall.SIGHUP)
	}
	go func() {
		var before interrupts
		for sig := range received {
			s := sig.(syscall.Signal)
			switch before.next(s, time.Now()) {
			case stopWork:
				boundedBy(printLimit, func() { a.printStopping(s) })
				cancel(SignalError{Signal: s})
				before.at = time.Now() // the same one may have come while this was printed
			case hurryWork: // once: the next SIGTERM abandons
				close(a.work.hurry)
			case abandonWork:
				a.work.mu.Lock()
				restore := a.work.restore
				a.work.mu.Unlock()
				if restore != nil {
					restore()
				}
				boundedBy(printLimit, a.printAbandoned)
				os.Exit(128 + int(s))
			}
		}
	}()
	return ctx, func() { signal.Stop(received); close(received); cancel(nil) }
}

// boundedBy waits for do, but not for longer than limit.
func boundedBy(limit time.Duration, do func()) {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// worksOn says which pods the command works on from now on, and for how long it may go
// on after a signal; 0 if it ends at once.
func (a *app) worksOn(r *renderer, e *run.Engine, pods []identity.Pod, limit time.Duration) {
	a.work.mu.Lock()
	defer a.work.mu.Unlock()
	a.work.remains = func() []string { return e.Remaining(pods) }
	if limit == 0 {
		return
	}
	a.work.stopping = func(s syscall.Signal) {
		text := fmt.Sprintf("stopping (up to %.0f s)", limit.Seconds())
		if s == syscall.SIGINT {
			text += "; press Ctrl-C again to abandon"
		}
		r.print(text)
	}
}

func (a *app) printStopping(s syscall.Signal) {
	a.work.mu.Lock()
	announce := a.work.stopping
	a.work.mu.Unlock()
	if announce != nil {
		announce(s)
	}
}

// printAbandoned names the pods that an abandoned command leaves.
func (a *app) printAbandoned() {
	a.work.mu.Lock()
	remains := a.work.remains
	a.work.mu.Unlock()
	if remains == nil {
		return
	}
	pods := remains()
	if len(pods) == 0 {
		a.printErrors(errors.New("abandoned: none of its pods remains"))
		return
	}
	a.printErrors(&problem.Error{Kind: problem.Failed, Err: errors.New("abandoned; pods that remain: " + strings.Join(pods, ", ")),
		Hint: "'podrun get' shows them, 'podrun delete NAME' removes them"})
}

// outlivePipes makes a command that changes pods finish its work when the reader of
// its output ends (podrun restart web | head -3): what it writes then is dropped. By
// default, Go ends a process whose standard output or error is a broken pipe.
func (a *app) outlivePipes() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // now a write returns EPIPE
	for _, w := range []*io.Writer{&a.raw.Out, &a.raw.Err} {
		if terminalOf(*w) == nil {
			*w = pipe{*w}
		}
	}
}

// pipe drops what is written to a pipe that is broken.
type pipe struct{ io.Writer }

// Write reports the length of p, or fewer bytes with an error other than EPIPE.
func (w pipe) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		return len(p), nil
	}
	return n, err
}
