package cmd

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestSignals(t *testing.T) {
	const in, term, hup = syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP
	type got struct {
		s     syscall.Signal
		after time.Duration // since the one before
		want  verdict
	}
	ms := time.Millisecond
	for name, list := range map[string][]got{
		"Ctrl-C twice":               {{in, 0, stopWork}, {in, time.Second, abandonWork}},
		"timeout(1)":                 {{term, 0, stopWork}, {term, ms / 5, noNews}, {term, 99 * ms, noNews}, {term, 200 * ms, abandonWork}},
		"timeout -s INT":             {{in, 0, stopWork}, {in, ms / 5, noNews}},
		"GitHub":                     {{in, 0, stopWork}, {term, 7500 * ms, hurryWork}},
		"GitHub's runner, its group": {{in, 0, stopWork}, {in, ms, noNews}, {term, 7500 * ms, hurryWork}, {term, ms, noNews}},
		"at once":                    {{in, 0, stopWork}, {term, ms, hurryWork}, {term, time.Second, abandonWork}},
		"SendSIGHUP of systemd":      {{term, 0, stopWork}, {hup, ms, noNews}, {term, time.Second, abandonWork}},
		"closed terminal, then kill": {{hup, 0, stopWork}, {term, time.Second, hurryWork}},
		"Ctrl-C after kill":          {{term, 0, stopWork}, {in, time.Second, abandonWork}},
		"not the same":               {{term, 0, stopWork}, {in, ms, abandonWork}},
	} {
		t.Run(name, func(t *testing.T) {
			var before interrupts
			now := time.Unix(1e9, 0)
			for i, g := range list {
				now = now.Add(g.after)
				if v := before.next(g.s, now); v != g.want {
					t.Errorf("signal %d, %s: %s, want %s", i, signalName(g.s), v, g.want)
				}
			}
		})
	}
}

// failing is a writer that fails.
type failing struct{ err error }

func (w failing) Write([]byte) (int, error) { return 0, w.err }

func TestPipe(t *testing.T) {
	if n, err := (pipe{failing{&errWrite{syscall.EPIPE}}}).Write([]byte("abc")); n != 3 || err != nil {
		t.Errorf("a broken pipe: %d, %v", n, err)
	}
	if _, err := (pipe{failing{syscall.ENOSPC}}).Write([]byte("abc")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
}

// errWrite is the error of a file's write.
type errWrite struct{ err error }

func (e *errWrite) Error() string { return "write |1: " + e.err.Error() }
func (e *errWrite) Unwrap() error { return e.err }

// A burst is measured from its first signal on: one every 90 ms abandons at last.
func TestSignalsBurst(t *testing.T) {
	var before interrupts
	var all []verdict
	for i := range 3 {
		all = append(all, before.next(syscall.SIGINT, time.Unix(1e9, 0).Add(time.Duration(i)*90*time.Millisecond)))
	}
	if !slices.Equal(all, []verdict{stopWork, noNews, abandonWork}) {
		t.Errorf("%v", all)
	}
}
