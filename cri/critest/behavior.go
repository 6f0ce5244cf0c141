package critest

import (
	"context"
	"io"
	"time"
)

// Behavior is what one run of a container does, in place of its command: it
// writes its lines, waits, and exits.
type Behavior struct {
	// StartErr makes StartContainer fail with this text; the container ends with
	// reason StartError and code 128.
	StartErr string

	Lines []Line
	// After is how long it runs on after the last line.
	After time.Duration
	// Forever runs until it is stopped.
	Forever  bool
	ExitCode int32
	// OOMKilled gives the end this reason, and code 137 where ExitCode is 0.
	OOMKilled bool

	// On TERM it exits with code 143, as a program that does not handle it, or,
	// with CleanTERM, 0; TERMAfter later. IgnoreTERM leaves it to KILL.
	IgnoreTERM bool
	CleanTERM  bool
	TERMAfter  time.Duration
}

// Line is a line of output, written After the one before it.
type Line struct {
	After  time.Duration
	Stderr bool
	Text   string
}

// Exec is what a command in a container does.
type Exec struct {
	After          time.Duration
	ExitCode       int32
	Stdout, Stderr string
	Err            error // fails the call with no exit code
}

// Script reports what the containers of a name do: the n-th start takes the n-th
// behavior, and the starts after the last take the last. The name is a
// container's, or pod/container where several pods have one of that name.
func (rt *Runtime) Script(name string, runs ...Behavior) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.scripts[name] = runs
	delete(rt.runs, name)
}

// ScriptExec reports what commands in the containers of a name do; nil from answer
// leaves the command to the shell. The name is as Script's.
func (rt *Runtime) ScriptExec(name string, answer func(cmd []string) *Exec) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.execs[name] = answer
}

// scripted takes the behavior of a container's next run. rt.mu is held.
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

// keys are the names that a test may call the container.
func (c *container) keys() []string {
	name := c.config.GetMetadata().GetName()
	return []string{c.sandbox.config.GetMetadata().GetName() + "/" + name, name}
}

// play is the program of a behavior.
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
		io.WriteString(w, l.Text+"\n") // a lost log line is no event for a program
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

// pause waits, and reports whether it came to the end.
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
