package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/podrun/podrun/run/access"
)

// Messages about -t.
const (
	IgnoredTTY = "warning: -t is ignored: standard input is not a terminal"
	PromptHint = "If you do not see a prompt, press enter."
)

// StdinTerminal returns standard input if it is a terminal, else nil.
func (a *App) StdinTerminal() *os.File {
	if f, ok := a.Raw.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// inForeground reports whether podrun belongs to the foreground process group of its terminal, which receives
// SIGINT if the user presses Ctrl-C. timeout(1) moves itself and its command to a new process group, which is in
// the background.
func inForeground() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// StreamsOf returns the streams for a process in a container, with standard input and a terminal
// if requested. If standard input is not a terminal, podrun does not use the local terminal at
// all, like kubectl. The caller must call restore at the end to restore the terminal.
func (a *App) StreamsOf(ctx context.Context, stdin, tty bool) (streams access.Streams, restore func(), err error) {
	streams, restore = access.Streams{Out: a.Raw.Out, Err: a.Raw.Err, TTY: tty}, func() {}
	if stdin {
		streams.In = a.Raw.In
	}
	in := a.StdinTerminal()
	if !tty || !stdin || in == nil {
		return streams, restore, nil
	}
	before, err := term.MakeRaw(int(in.Fd()))
	if err != nil {
		return streams, restore, fmt.Errorf("set the terminal to raw mode: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	a.rawTerminal.Store(true)
	streams.Sizes = terminalSizes(ctx, in)
	restore = sync.OnceFunc(func() {
		cancel()
		_ = term.Restore(int(in.Fd()), before) // fails if the terminal no longer exists
		a.rawTerminal.Store(false)
	})
	a.Work.SetRestore(restore)
	return streams, restore, nil
}

// terminalSizes sends the size of a terminal immediately and after each change until ctx ends.
// The first size is one character too large, and the correct size follows it: the change makes
// programs in the container redraw their screen.
func terminalSizes(ctx context.Context, terminal *os.File) <-chan access.TerminalSize {
	sizes := make(chan access.TerminalSize)
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	go func() {
		defer signal.Stop(changes)
		for extra := uint16(1); ; extra = 0 {
			width, height, err := term.GetSize(int(terminal.Fd()))
			if err == nil {
				select {
				case sizes <- access.TerminalSize{Width: uint16(width) + extra, Height: uint16(height) + extra}:
				case <-ctx.Done():
					return
				}
			}
			if extra > 0 {
				continue
			}
			select {
			case <-changes:
			case <-ctx.Done():
				return
			}
		}
	}()
	return sizes
}
