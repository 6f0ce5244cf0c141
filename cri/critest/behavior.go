package critest

import (
	"context"
	"io"
	"time"
)

// Behavior replaces the command of one run of a container. The container writes the lines, waits
// for After, and exits.
type Behavior struct {
	// StartErr makes StartContainer fail with this text. The container then exits with reason
	// StartError and code 128.
	StartErr string

	Lines []Line
	// After is the time for which the container continues to run after the last line.
	After time.Duration
	// Forever means that the container runs until it is stopped.
	Forever  bool
	ExitCode int32
	// OOMKilled sets the container's reason to OOMKilled and, if ExitCode is 0, its exit code to 137.
	OOMKilled bool

	// On TERM, the container exits after TERMAfter. Its code is 143, as for a program that does
	// not handle the signal, or 0 if CleanTERM is set. If IgnoreTERM is set, only KILL terminates
	// it.
	IgnoreTERM bool
	CleanTERM  bool
	TERMAfter  time.Duration
}

// Line is a line of output. The container writes it the duration After after the previous line.
type Line struct {
	After  time.Duration
	Stderr bool
	Text   string
}

// Exec is the result of a command in a container.
type Exec struct {
	After          time.Duration
	ExitCode       int32
	Stdout, Stderr string
	Err            error // error with which the call fails, without an exit code
}

// Script sets the behavior of the containers with the given name. The n-th start uses the n-th
// behavior; all later starts use the last one. The name is that of a container, or pod/container if
// several pods have a container with that name.
func (rt *Runtime) Script(name string, runs ...Behavior) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.scripts[name] = runs
	delete(rt.runs, name)
}

// ScriptExec sets the results of commands in the containers with the given name. If answer returns
// nil, the shell runs the command. The name has the format that Script accepts.
func (rt *Runtime) ScriptExec(name string, answer func(cmd []string) *Exec) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.execs[name] = answer
}

// scripted returns the behavior of a container's next run, and counts the run. The caller must hold
// rt.mu.
func (rt *Runtime) scripted(c *container) (Behavior, bool) {
	for _, name := range c.keys() {
		if runs := rt.scripts[name]; len(runs) > 0 {
			n := min(rt.runs[name], len(runs)-1)
			rt.runs[name]++
			return runs[n], true
		}
	}
	return Behavior{}, false
}

// keys returns the names under which a test may have scripted the container.
func (c *container) keys() []string {
	name := c.config.GetMetadata().GetName()
	return []string{c.sandbox.config.GetMetadata().GetName() + "/" + name, name}
}

// play runs the behavior in place of a program.
func (b Behavior) play(ctx context.Context, term <-chan struct{}, _ io.Reader, stdout, stderr io.Writer) exit {
	if b.IgnoreTERM {
		term = nil
	}
	for _, l := range b.Lines {
		if !b.pause(ctx, term, l.After) {
			return b.terminated(ctx)
		}
		w := stdout
		if l.Stderr {
			w = stderr
		}
		// The program ignores an error, like most programs that write to stdout.
		io.WriteString(w, l.Text+"\n")
	}
	if b.Forever {
		select {
		case <-ctx.Done():
		case <-term:
		}
		return b.terminated(ctx)
	}
	if !b.pause(ctx, term, b.After) {
		return b.terminated(ctx)
	}
	if b.OOMKilled {
		if b.ExitCode == 0 {
			b.ExitCode = 137
		}
		return exit{code: b.ExitCode, reason: "OOMKilled"}
	}
	return exited(b.ExitCode)
}

// pause waits for d; and returns false if it is interrupted.
func (b Behavior) pause(ctx context.Context, term <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-term:
	case <-ctx.Done():
	}
	return false
}

func (b Behavior) terminated(ctx context.Context) exit {
	b.pause(ctx, nil, b.TERMAfter)
	if b.CleanTERM {
		return exited(0)
	}
	return exited(143)
}
