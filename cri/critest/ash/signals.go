package ash

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// errTerminated is the error that ends a process that TERM terminated.
var errTerminated = errors.New("terminated")

// errInterrupted is the error of a wait that ended so that a trap can run.
var errInterrupted = errors.New("interrupted")

// signals is the state of a process with regard to TERM. Only the foreground of the process
// accesses it.
type signals struct {
	trapped bool
	handler string // commands of the trap; "" means that the process ignores TERM
	// whether a TERM has arrived whose handler has not run yet
	pending bool
}

// receive handles a TERM. It returns nil if the process continues.
func (sh *shell) receive() error {
	if !sh.signals.trapped && !sh.process.Init {
		return errTerminated
	}
	sh.signals.pending = sh.signals.handler != ""
	return nil
}

// check handles a pending TERM, and runs its trap in the main shell.
func (sh *shell) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if sh.background {
		return nil
	}
	select {
	case <-sh.process.TERM:
		if err := sh.receive(); err != nil {
			return err
		}
	default:
	}
	if !sh.main || !sh.signals.pending {
		return nil
	}
	sh.signals.pending = false
	status := sh.status
	err := sh.eval(ctx, sh.signals.handler)
	sh.status = status
	return err
}

// until waits for a channel. If TERM has a trap and interruptible is true, a TERM interrupts the
// wait with errInterrupted. While a shell runs a program, interruptible is false, because the shell
// waits until the program exits.
func until[T any](ctx context.Context, sh *shell, c <-chan T, interruptible bool) error {
	term := sh.process.TERM
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
			if err := sh.receive(); err != nil {
				return err
			}
			if sh.signals.pending && interruptible {
				return errInterrupted
			}
		}
	}
}

// trap sets the handler of TERM in the main shell: trap 'commands' TERM, or trap "" TERM to
// ignore the signal.
func trap(_ context.Context, sh *shell, args []string) (int, error) {
	if len(args) != 2 || args[0] == "-" || args[1] != "TERM" {
		return 2, sh.fail("trap %s is not supported", strings.Join(args, " "))
	}
	if sh.main {
		sh.signals.trapped, sh.signals.handler = true, args[0]
	}
	return 0, nil
}

// kill sends KILL to the process itself. If the process is process 1 of a PID namespace, the kernel
// ignores this signal.
func kill(_ context.Context, sh *shell, args []string) (int, error) {
	if strings.Join(args, " ") != "-9 "+strconv.Itoa(sh.pid()) {
		return 2, sh.fail("kill %s is not supported", strings.Join(args, " "))
	}
	if sh.process.Init {
		return 0, nil
	}
	return 137, exited{137}
}

// pid returns the process ID. The ID is 1 if the process has its own PID namespace, and otherwise
// arbitrary.
func (sh *shell) pid() int {
	if sh.process.Init {
		return 1
	}
	return 7
}

// jobs are the background commands of a process.
type jobs struct {
	all sync.WaitGroup // all jobs, including the parts of pipelines
	mu  sync.Mutex
	// for each job, a channel that is closed when the job has exited
	each []chan struct{}
}

func (j *jobs) start(run func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	done := make(chan struct{})
	j.each = append(j.each, done)
	j.all.Go(func() {
		defer close(done)
		run()
	})
}

// wait waits for all jobs. If TERM has a trap, a TERM interrupts the wait.
func wait(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) > 0 {
		return 2, sh.fail("wait %s is not supported", args[0])
	}
	sh.jobs.mu.Lock()
	waited := slices.Clone(sh.jobs.each)
	sh.jobs.mu.Unlock()
	for _, done := range waited {
		if err := until(ctx, sh, done, true); errors.Is(err, errInterrupted) {
			return 143, nil
		} else if err != nil {
			return 1, err
		}
	}
	return 0, nil
}
