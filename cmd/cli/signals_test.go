package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/test/patience"
)

func TestSignals(t *testing.T) {
	const in, term, hup = syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP
	type got struct {
		s     syscall.Signal
		after time.Duration // since the previous signal
		want  verdict
	}
	ms := time.Millisecond
	for name, list := range map[string][]got{
		"two INTs":                   {{in, 0, stopWork}, {in, 999 * ms, noEffect}, {in, ms, abandonWork}},
		"timeout(1)":                 {{term, 0, stopWork}, {term, ms / 5, noEffect}, {term, 999 * ms, noEffect}, {term, 200 * ms, abandonWork}},
		"timeout -s INT":             {{in, 0, stopWork}, {in, ms / 5, noEffect}},
		"GitHub":                     {{in, 0, stopWork}, {term, 7500 * ms, speedUp}},
		"GitHub's runner, its group": {{in, 0, stopWork}, {in, ms, noEffect}, {term, 7500 * ms, speedUp}, {term, ms, noEffect}},
		"at once":                    {{in, 0, stopWork}, {term, ms, speedUp}, {term, time.Second, abandonWork}},
		"SendSIGHUP of systemd":      {{term, 0, stopWork}, {hup, ms, noEffect}, {term, time.Second, abandonWork}},
		"closed terminal, then kill": {{hup, 0, stopWork}, {term, time.Second, speedUp}},
		"Ctrl-C after kill":          {{term, 0, stopWork}, {in, time.Second, abandonWork}},
		"Ctrl-\\, then kill":         {{syscall.SIGQUIT, 0, stopWork}, {syscall.SIGQUIT, ms, noEffect}, {term, ms, speedUp}, {syscall.SIGQUIT, time.Second, abandonWork}},
		"not the same":               {{term, 0, stopWork}, {in, ms, abandonWork}},
	} {
		t.Run(name, func(t *testing.T) {
			var before interrupts
			now := time.Unix(1e9, 0)
			for i, g := range list {
				now = now.Add(g.after)
				if v := before.verdict(g.s, now); v != g.want {
					t.Errorf("signal %d, %s: %s, want %s", i, exit.SignalName(g.s), v, g.want)
				}
			}
		})
	}
}

// TestSignalsOfKeyboard checks that a user may press Ctrl-C twice, and that other signals keep the longer interval.
func TestSignalsOfKeyboard(t *testing.T) {
	now := time.Unix(1e9, 0)
	for s, want := range map[syscall.Signal]verdict{syscall.SIGINT: abandonWork, syscall.SIGTERM: noEffect} {
		before := interrupts{keys: true}
		all := []verdict{before.verdict(s, now), before.verdict(s, now.Add(keyInterval-1)), before.verdict(s, now.Add(keyInterval))}
		if !slices.Equal(all, []verdict{stopWork, noEffect, want}) {
			t.Errorf("%s: %v", exit.SignalName(s), all)
		}
	}
}

// failing is a writer that returns an error.
type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

func TestPipe(t *testing.T) {
	broken := 0
	if n, err := (pipe{failing{&errWrite{syscall.EPIPE}}, func() { broken++ }}).Write([]byte("abc")); n != 3 || err != nil {
		t.Errorf("a broken pipe: %d, %v", n, err)
	}
	if _, err := (pipe{failing{syscall.ENOSPC}, func() { broken++ }}).Write([]byte("abc")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	if broken != 1 {
		t.Errorf("%d broken pipes, want 1", broken)
	}
}

// errWrite is the error of a write to a file.
type errWrite struct{ err error }

func (e *errWrite) Error() string { return "write |1: " + e.err.Error() }

func (e *errWrite) Unwrap() error { return e.err }

// A burst is measured from its first signal: with a signal every 0.9 s, the command is
// eventually abandoned.
func TestSignalsBurst(t *testing.T) {
	var before interrupts
	var all []verdict
	for i := range 3 {
		all = append(all, before.verdict(syscall.SIGINT, time.Unix(1e9, 0).Add(time.Duration(i)*900*time.Millisecond)))
	}
	if !slices.Equal(all, []verdict{stopWork, noEffect, abandonWork}) {
		t.Errorf("%v", all)
	}
}

// TestSameSignalWhilePrinting checks that timeout(1)'s second signal counts as a duplicate even
// if a slow terminal delays the message about the first one.
func TestSameSignalWhilePrinting(t *testing.T) {
	a := New(Streams{Out: io.Discard, Err: io.Discard})
	printing, sent := make(chan struct{}), make(chan struct{})
	a.Work.printStopping = func(syscall.Signal) { close(printing); <-sent; time.Sleep(2 * duplicateInterval) }
	abandoned := make(chan struct{}, 1)
	a.Work.restore = func() { abandoned <- struct{}{}; select {} } // instead of exiting this process
	ctx, stop := a.CatchSignals(t.Context())
	send := func() {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	send()
	<-printing
	send()
	close(sent)
	<-ctx.Done()
	select {
	case <-abandoned:
		t.Fatal("the work was abandoned")
	case <-time.After(2 * duplicateInterval):
	}
	send()
	patience.Receive(t, "a later signal abandons the work", abandoned)
	// The goroutine remains blocked in restore.
	stop()
}

// TestWithCause checks that an error names the signal that ended the command once.
func TestWithCause(t *testing.T) {
	signal := exit.SignalError{Signal: syscall.SIGINT}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(signal)
	for err, want := range map[error]string{
		context.Canceled: "context canceled\nended by SIGINT",
		fmt.Errorf("read: %w: %w", signal, context.Canceled): "read: ended by SIGINT: context canceled",
		fs.ErrNotExist: fs.ErrNotExist.Error(),
	} {
		if got := WithCause(ctx, err).Error(); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}
