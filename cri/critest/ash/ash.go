// Package ash is a shell in miniature: as much of busybox's ash and of the
// small programs beside it as the containers of tests need. It touches nothing
// but what a Process brings, and every wait in it is a timer or a channel, so
// that it runs inside testing/synctest.
//
// Signals are as for a container's process: TERM runs the trap that was set,
// between two commands or at once in a wait; without a trap it ends a process,
// save process 1 of a PID namespace, which the kernel shields from signals that
// it has no handler for.
package ash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"
)

// Files is what a process sees as its file system. Paths are absolute and
// clean; errors read as the part that follows the path in a message.
type Files interface {
	Read(path string) ([]byte, error)
	Write(path string, data []byte, appending bool) error
	// Kind is 'f' for a file, 'd' for a directory and 0 for nothing.
	Kind(path string) byte
	List(path string) ([]string, error)
	MakeDir(path string) error
	Remove(path string) error
}

// Process is a program to run and all that it has to do with.
type Process struct {
	Args     []string
	Env      []string // KEY=value
	Dir      string
	Stdin    io.Reader // nil is empty
	Stdout   io.Writer
	Stderr   io.Writer
	Files    Files
	Hostname string
	UID, GID int64

	// Init says that it is process 1 of its PID namespace.
	Init bool
	// TERM delivers the signal; nil never does.
	TERM <-chan struct{}
	// SignalInit signals the namespace's process 1 from another process of it.
	SignalInit func(signal string)
}

// Known tells whether args name a program that there is.
func Known(args []string) bool {
	name, _ := program(args)
	return name == "sh" || applets[name] != nil
}

// program takes the path and a leading "busybox" off.
func program(args []string) (string, []string) {
	if len(args) == 0 {
		return "", nil
	}
	name := args[0]
	if dir := path.Dir(name); contains([]string{"/bin", "/usr/bin", "/sbin", "/usr/sbin"}, dir) {
		name = path.Base(name)
	}
	if name == "busybox" && len(args) > 1 {
		return program(args[1:])
	}
	if name == "ash" {
		name = "sh"
	}
	return name, args[1:]
}

// Run runs a process to its end and gives its exit code: 127 where there is no
// such program, 137 when ctx ends first.
func Run(ctx context.Context, p Process) int {
	ctx, cancel := context.WithCancel(ctx)
	lock := &sync.Mutex{}
	sh := &shell{
		process: &p, main: true, name: "sh", dir: "/",
		vars: map[string]string{}, exported: map[string]bool{},
		stdin: p.Stdin, stdout: &locked{w: p.Stdout, mu: lock}, stderr: &locked{w: p.Stderr, mu: lock},
		signals: &signals{term: p.TERM, init: p.Init, handlers: map[string]string{}},
		jobs:    &jobs{},
	}
	if p.Dir != "" {
		sh.dir = p.Dir
	}
	if sh.stdin == nil {
		sh.stdin = strings.NewReader("")
	}
	for _, e := range p.Env {
		k, v, _ := strings.Cut(e, "=")
		sh.vars[k] = v
		sh.exported[k] = true
		sh.order = append(sh.order, k)
	}
	code, err := sh.exec(ctx, p.Args)
	cancel()
	sh.jobs.all.Wait()
	switch {
	case err == nil:
		return code
	case errors.Is(err, errTerminated):
		return 143
	}
	if code, left := exitOf(err); left {
		return code
	}
	return 137
}

// exec runs a program: a script in this shell if it is a shell's.
func (sh *shell) exec(ctx context.Context, args []string) (int, error) {
	name, rest := program(args)
	if name == "sh" {
		return sh.script(ctx, rest)
	}
	run := applets[name]
	if run == nil {
		fmt.Fprintf(sh.stderr, "sh: %s: not found\n", name)
		return 127, nil
	}
	return run(ctx, sh, rest)
}

// script runs sh [-ceux] [script] [args].
func (sh *shell) script(ctx context.Context, args []string) (int, error) {
	fromArgs := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && len(args[0]) > 1 {
		fromArgs = fromArgs || strings.Contains(args[0], "c")
		sh.options(args[0], true)
		args = args[1:]
	}
	if sh.main {
		sh.set("PWD", sh.dir)
		sh.set("SHLVL", "1")
		sh.export("SHLVL")
		sh.export("PWD")
	}
	var src string
	switch {
	case fromArgs && len(args) > 0:
		src = args[0]
		if len(args) > 1 {
			sh.name, sh.args = args[1], args[2:]
		}
	case len(args) > 0:
		data, err := sh.process.Files.Read(sh.abs(args[0]))
		if err != nil {
			fmt.Fprintf(sh.stderr, "sh: can't open '%s': %v\n", args[0], err)
			return 2, nil
		}
		src, sh.name, sh.args = string(data), args[0], args[1:]
	default:
		data, err := sh.input(ctx, "-")
		if err != nil {
			return 2, err
		}
		src = string(data)
	}
	l, err := parse(src)
	if err != nil {
		fmt.Fprintf(sh.stderr, "%s: %v\n", sh.name, err)
		return 2, nil
	}
	err = sh.run(ctx, l)
	return sh.leave(ctx, err)
}

// leave runs the EXIT trap and tells the shell's code.
func (sh *shell) leave(ctx context.Context, err error) (int, error) {
	if code, left := exitOf(err); left {
		sh.status, err = code, nil
	}
	if err != nil || !sh.main {
		return sh.status, err
	}
	handler := sh.signals.handlers["EXIT"]
	delete(sh.signals.handlers, "EXIT")
	if handler == "" {
		return sh.status, nil
	}
	code := sh.status
	if err = sh.eval(ctx, handler); err != nil {
		return sh.leave(ctx, err)
	}
	return code, nil
}

// eval runs text as a script in this shell.
func (sh *shell) eval(ctx context.Context, src string) error {
	l, err := parse(src)
	if err != nil {
		return sh.fail(2, "%v", err)
	}
	return sh.run(ctx, l)
}

// fail says why and leaves the shell.
func (sh *shell) fail(code int, format string, args ...any) error {
	fmt.Fprintf(sh.stderr, sh.name+": "+format+"\n", args...)
	return leaving{code}
}

// leaving unwinds a shell that exits.
type leaving struct{ code int }

func (l leaving) Error() string { return fmt.Sprintf("exit %d", l.code) }

func exitOf(err error) (int, bool) {
	var l leaving
	ok := errors.As(err, &l)
	return l.code, ok
}

// jump unwinds loops: break, or continue, of the depth-th.
type jump struct {
	word  string
	depth int
}

func (j jump) Error() string { return j.word }

// locked lets jobs write to one place.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.w == nil {
		return len(b), nil
	}
	return l.w.Write(b)
}
