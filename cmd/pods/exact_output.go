package pods

import (
	"bytes"
	"io"
	"sync"
	"time"

	"github.com/podrun/podrun/container/podlog"
)

// exactOutput prints the output of a container whose standard input podrun passes on (run -i). The
// attached streams are exact, but a CRI runtime attaches only to a running container, and does not
// transmit earlier output. The log is complete, but containerd's log lacks the carriage return before
// a newline.
//
// Therefore, exactOutput prints the log until podrun is attached. podrun withholds the input for that
// time. If the container then writes nothing for joinWait, the log is complete so far, and
// exactOutput continues with the attached streams. If the container does not pause, the position of the
// attached output in the log is unknown, and exactOutput prints the log to its end.
// (joinedOutput, for terminals, accepts a wrong guess, because a terminal must show incomplete lines.)
type exactOutput struct {
	mu      sync.Mutex
	decided bool
	exact   bool // the attached streams are printed
	wrote   bool // the log has grown, or output has been attached, since the last check
	streams [2]exactStream
	// printing is held during writes. A write of the log, unlike one of attached output, does not hold
	// mu: the runtime would wait for the reader.
	printing sync.Mutex
}

// exactStream is standard output or standard error.
type exactStream struct {
	out io.Writer // where exact output is printed
	log io.Writer // where the log is printed
	// held contains the first attached output, and logged the log since podrun decided. They remain
	// until they can be joined, because the first line may have begun before podrun attached.
	held, logged  []byte
	joined, timed bool
	midLine       bool // attached output that was not printed ended within a line
}

// maxUnjoined is the number of bytes of attached output that exactOutput holds at most. maxDecisions is
// how many times it waits joinWait for the log to be complete.
const (
	maxUnjoined  = 64 << 10
	maxDecisions = 5
)

func newExactOutput(exact, log podlog.Output) *exactOutput {
	return &exactOutput{streams: [2]exactStream{{out: exact.Stdout, log: log.Stdout}, {out: exact.Stderr, log: log.Stderr}}}
}

// logOutput returns the destination of the container's log.
func (e *exactOutput) logOutput() podlog.Output {
	to := func(s *exactStream) io.Writer {
		return writerFunc(func(p []byte) (int, error) {
			if e.hold(s, p) {
				return len(p), nil
			}
			e.printing.Lock()
			defer e.printing.Unlock()
			return s.log.Write(p)
		})
	}
	return podlog.Output{Stdout: to(&e.streams[0]), Stderr: to(&e.streams[1])}
}

// attachedOutput returns the destinations of the attached streams.
func (e *exactOutput) attachedOutput() podlog.Output {
	to := func(s *exactStream) io.Writer {
		return writerFunc(func(p []byte) (int, error) { return len(p), e.attached(s, p) })
	}
	return podlog.Output{Stdout: to(&e.streams[0]), Stderr: to(&e.streams[1])}
}

// writerFunc is a function that implements io.Writer.
type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// hold processes a part of the log. It returns false if the caller must print it.
func (e *exactOutput) hold(s *exactStream, p []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wrote = true
	if e.exact && !s.joined {
		s.logged = append(s.logged, p...)
		if len(s.held) > 0 {
			// The next write of attached output reports an error.
			_ = e.join(s, false)
		}
	}
	return e.exact
}

func (e *exactOutput) attached(s *exactStream, p []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wrote = true
	switch {
	case !e.exact:
		s.midLine = !bytes.HasSuffix(p, []byte("\n"))
		return nil
	case s.joined:
		return e.print(s, p)
	}
	s.held = append(s.held, p...)
	if !s.timed {
		s.timed = true
		time.AfterFunc(joinWait, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			_ = e.join(s, true)
		})
	}
	return e.join(s, len(s.held) >= maxUnjoined)
}

func (e *exactOutput) print(s *exactStream, p []byte) error {
	e.printing.Lock()
	defer e.printing.Unlock()
	_, err := s.out.Write(p)
	return err
}

// decide is called when podrun is attached, before it passes on the input. It returns when the input
// may be passed on.
func (e *exactOutput) decide() {
	for n := range maxDecisions {
		e.mu.Lock()
		e.wrote = false
		decided := e.decided
		e.mu.Unlock()
		if decided {
			return
		}
		time.Sleep(joinWait)
		e.mu.Lock()
		if !e.decided && (!e.wrote || n == maxDecisions-1) {
			e.decided, e.exact = true, !e.wrote && !e.streams[0].midLine && !e.streams[1].midLine
		}
		e.mu.Unlock()
	}
}

// useLog continues with the log, because the attached streams have failed.
func (e *exactOutput) useLog() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end()
	e.decided, e.exact = true, false
}

// finish prints what is left when both the log and the attached streams have ended.
func (e *exactOutput) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.end()
}

func (e *exactOutput) end() {
	for i := range e.streams {
		_ = e.join(&e.streams[i], true) // no process reads an output that fails
	}
}

// join prints the held output, after those bytes of the log that were written before podrun attached.
// Unless now is set, it waits for the log if the log may contain such bytes.
func (e *exactOutput) join(s *exactStream, now bool) error {
	if s.joined {
		return nil
	}
	held, logged := withoutCR(s.held), withoutCR(s.logged)
	complete := len(logged) > 0 && bytes.HasPrefix(held, logged)
	if !complete && !now || len(held)+len(logged) == 0 {
		return nil
	}
	var missing []byte
	if begins := len(held) > 0 && bytes.HasPrefix(logged, held); !complete && !begins {
		n := min(len(held), len(logged))
		for n > 0 && !bytes.HasSuffix(logged, held[:n]) {
			n--
		}
		missing = logged[:len(logged)-n]
	}
	out := append(missing, s.held...)
	s.joined = true
	s.held = nil
	s.logged = nil
	return e.print(s, out)
}

// withoutCR returns output as containerd's log contains it. The result is only for comparisons.
func withoutCR(p []byte) []byte { return bytes.ReplaceAll(p, []byte("\r"), nil) }
