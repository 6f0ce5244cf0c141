package ash

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"
)

// errTerminated unwinds a process that TERM ended.
var errTerminated = errors.New("terminated")

// errInterrupted ends a wait for the sake of a trap.
var errInterrupted = errors.New("interrupted")

// signals is what a process does about TERM. Only its foreground touches it.
type signals struct {
	term     <-chan struct{}
	init     bool
	handlers map[string]string // by signal name; "" ignores it
	pending  bool
}

// arrived decides about a TERM: nil to go on.
func (s *signals) arrived() error {
	handler, trapped := s.handlers["TERM"]
	switch {
	case trapped:
		s.pending = handler != ""
		return nil
	case s.init:
		return nil
	}
	return errTerminated
}

// check takes a TERM that has come, and runs its trap where that may be done.
func (sh *shell) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if sh.background {
		return nil
	}
	select {
	case <-sh.signals.term:
		if err := sh.signals.arrived(); err != nil {
			return err
		}
	default:
	}
	if !sh.main || !sh.signals.pending {
		return nil
	}
	sh.signals.pending = false
	status := sh.status
	err := sh.eval(ctx, sh.signals.handlers["TERM"])
	sh.status = status
	return err
}

// until waits for a channel. A trapped TERM ends it early, with errInterrupted,
// only where interruptible: a shell waits for the program that it runs.
func until[T any](ctx context.Context, sh *shell, c <-chan T, interruptible bool) error {
	term := sh.signals.term
	if sh.background {
		term = nil
	}
	for {
		select {
		case <-c:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-term:
			if err := sh.signals.arrived(); err != nil {
				return err
			}
			if sh.signals.pending && interruptible {
				return errInterrupted
			}
		}
	}
}

// never is a wait without end.
func (sh *shell) never(ctx context.Context) error {
	return until(ctx, sh, make(chan struct{}), false)
}

func (sh *shell) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	return until(ctx, sh, timer.C, false)
}

// signalName turns TERM, SIGTERM and 15 into TERM.
func signalName(s string) string {
	numbers := map[string]string{"0": "EXIT", "1": "HUP", "2": "INT", "3": "QUIT", "9": "KILL", "15": "TERM"}
	s = strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if name, ok := numbers[s]; ok {
		return name
	}
	return s
}

// kill signals a process: itself, process 1, or a job of this shell.
func (sh *shell) kill(signal, pid string) (int, error) {
	switch {
	case pid == strconv.Itoa(sh.pid()):
		return sh.killSelf(signal)
	case pid == "1" && sh.process.SignalInit != nil:
		sh.process.SignalInit(signal)
		return 0, nil
	}
	if !sh.jobs.kill(pid) {
		return 1, nil
	}
	return 0, nil
}

func (sh *shell) killSelf(signal string) (int, error) {
	if signal == "TERM" {
		return 0, sh.signals.arrived()
	}
	if handler, trapped := sh.signals.handlers[signal]; trapped && handler == "" || sh.process.Init || signal == "EXIT" {
		return 0, nil
	}
	numbers := map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9}
	return 0, leaving{128 + numbers[signal]}
}

// pid is the process's own number: 1, or one that another process may have.
func (sh *shell) pid() int {
	if sh.process.Init {
		return 1
	}
	return 7
}

// jobs are the background commands of a process.
type jobs struct {
	all  sync.WaitGroup
	mu   sync.Mutex
	each []*job
}

type job struct {
	pid  string
	stop context.CancelFunc
	done chan struct{}
	code int
}

func (j *jobs) start(ctx context.Context, run func(context.Context) int) string {
	ctx, stop := context.WithCancel(ctx)
	j.mu.Lock()
	jb := &job{pid: strconv.Itoa(8 + len(j.each)), stop: stop, done: make(chan struct{})}
	j.each = append(j.each, jb)
	j.mu.Unlock()
	j.all.Go(func() {
		defer close(jb.done)
		defer stop()
		jb.code = run(ctx)
	})
	return jb.pid
}

func (j *jobs) find(pid string) []*job {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []*job
	for _, jb := range j.each {
		if pid == "" || jb.pid == pid {
			found = append(found, jb)
		}
	}
	return found
}

func (j *jobs) kill(pid string) bool {
	found := j.find(pid)
	for _, jb := range found {
		jb.stop()
	}
	return len(found) > 0
}
