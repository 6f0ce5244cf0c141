package script

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// background is a command that runs in the background.
type background struct {
	cmd            *exec.Cmd
	stdout, stderr buffer
	done           chan error
}

// buffer contains the output of a command. It can be read while the command is writing to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *background) kill() {
	// the command may have already exited
	_ = b.cmd.Process.Kill()
	<-b.done
}

// start NAME COMMAND [ARG...] starts a command in the background. Unlike with testscript's own &, a
// script can wait for the command's output and check its exit code.
func start(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "start NAME COMMAND [ARG...]")
	c, err := commandOf(ts, args[1], args[2:])
	ts.Check(err)
	b := &background{cmd: c, done: make(chan error, 1)}
	c.Stdout, c.Stderr = &b.stdout, &b.stderr
	c.WaitDelay = time.Minute // a child that survives the command keeps the pipe of its output open
	ts.Check(c.Start())
	of(ts).background[args[0]] = b
	go func() { b.done <- c.Wait(); close(b.done) }()
}

func started(ts *testscript.TestScript, name string) *background {
	b := of(ts).background[name]
	if b == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return b
}

// await NAME PATTERN waits until the output of the command matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "await NAME PATTERN")
	b := started(ts, args[0])
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text string
	matches := false
	err = of(ts).until(func() bool {
		ended := len(b.done) > 0 // before the output is read, which is then complete
		text = b.stdout.String() + b.stderr.String()
		matches = pattern.MatchString(text)
		return matches || ended
	})
	if err == nil && !matches {
		err = errors.New("it ended")
	}
	if err != nil {
		ts.Fatalf("%s did not write %q: %v:\n%s", args[0], args[1], err, text)
	}
}

var signals = map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT}

// signal NAME INT|TERM|KILL signals a command.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "signal NAME INT|TERM|KILL")
	ts.Check(started(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

// finish NAME CODE|SIGNAL waits until a command exits or a signal kills it. stdout and stderr then
// contain the command's output.
func finish(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, neg, args, 2, "finish NAME CODE|SIGNAL")
	b := started(ts, args[0])
	err := <-b.done // after the limit, the harness ends the command
	delete(of(ts).background, args[0])
	fmt.Fprint(ts.Stdout(), b.stdout.String())
	fmt.Fprint(ts.Stderr(), b.stderr.String())
	if of(ts).hangs() {
		ts.Fatalf("%s did not end: %v:\n%s%s", args[0], context.Cause(of(ts).ctx), b.stdout.String(), b.stderr.String())
	}
	checkCode(ts, args[1], err)
}

// until PATTERN COMMAND [ARG...] repeats a command until its output matches, with '!' until it does not. The intervals
// increase, because each run takes CPU time from the process for which it waits.
func until(ts *testscript.TestScript, neg bool, args []string) {
	want(ts, false, args, 2, "until PATTERN COMMAND [ARG...]")
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	var out string
	var failed error
	err = of(ts).until(func() bool {
		out, failed = output(ts, args[1], args[2:])
		return pattern.MatchString(out) != neg
	})
	if err != nil {
		ts.Fatalf("no %q: %v:\n%s(%v)", args[0], err, out, failed)
	}
	fmt.Fprint(ts.Stdout(), out)
}

// output runs a command and returns its standard output and error.
func output(ts *testscript.TestScript, name string, args []string) (string, error) {
	if s := of(ts); name == "podrun" && s.sessions {
		stdout, stderr, err := s.podrun(ts, args)
		return stdout + stderr, err
	}
	c, err := commandOf(ts, name, args)
	ts.Check(err)
	out, err := c.CombinedOutput()
	return string(out), err
}
