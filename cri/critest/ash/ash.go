// Package ash is a small shell for the containers of tests: an interpreter of
// its own over the syntax and expand packages of mvdan.cc/sh, with the few of
// busybox's programs that tests run. That module's own interpreter is not used:
// it connects pipelines by pipes of the kernel, which testing/synctest cannot
// wait for, and has no trap for TERM.
//
// It touches nothing but what a Process brings, and every wait in it is a timer
// or a channel, so that it runs inside testing/synctest.
//
// Signals are as for a container's process: TERM runs the trap that was set,
// between two commands or at once in a wait; without a trap it ends a process,
// except process 1 of a PID namespace, which the kernel shields from signals that
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

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
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
}

// Process is a program to run, with its environment, streams and files.
type Process struct {
	Args     []string
	Env      []string  // KEY=value
	Dir      string    // "" is /
	Stdin    io.Reader // nil is empty; a read that blocks must end when the process has
	Stdout   io.Writer
	Stderr   io.Writer
	Files    Files
	Hostname string
	UID, GID int64

	// Init says that it is process 1 of its PID namespace.
	Init bool
	// TERM delivers the signal; nil never does.
	TERM <-chan struct{}
}

// Known reports whether args name an existing program.
func Known(args []string) bool {
	name, _ := program(args)
	return name == "sh" || programs[name] != nil
}

// program removes the path.
func program(args []string) (string, []string) {
	if len(args) == 0 {
		return "", nil
	}
	switch path.Dir(args[0]) {
	case "/bin", "/usr/bin":
		return path.Base(args[0]), args[1:]
	}
	return args[0], args[1:]
}

// Run runs a process to its end and returns its exit code: 127 if there is no
// such program, 137 if ctx ends first. All its goroutines have ended then.
func Run(ctx context.Context, p Process) int {
	ctx, cancel := context.WithCancel(ctx)
	lock := &sync.Mutex{}
	sh := &shell{
		process: &p, main: true, name: "sh", dir: path.Join("/", p.Dir), vars: map[string]expand.Variable{},
		stdin: p.Stdin, stdout: &locked{w: p.Stdout, mu: lock}, stderr: &locked{w: p.Stderr, mu: lock},
		signals: &signals{}, jobs: &jobs{},
	}
	if sh.stdin == nil {
		sh.stdin = strings.NewReader("")
	}
	for _, e := range p.Env {
		name, value, _ := strings.Cut(e, "=")
		sh.set(name, value, true)
	}
	code, err := sh.exec(ctx, p.Args)
	cancel()
	sh.jobs.all.Wait()
	switch e, exited := errors.AsType[exited](err); {
	case err == nil:
		return code
	case exited:
		return e.code
	case errors.Is(err, errTerminated):
		return 143
	}
	return 137
}

// exec runs a program; a shell's script runs in sh itself.
func (sh *shell) exec(ctx context.Context, args []string) (int, error) {
	name, rest := program(args)
	if name == "sh" {
		return sh.script(ctx, rest)
	}
	if run := programs[name]; run != nil {
		return run(ctx, sh, rest)
	}
	return sh.complain(127, "sh: %s: not found", name)
}

// script runs sh -c SCRIPT [NAME [ARG...]]; without arguments the script is
// stdin.
func (sh *shell) script(ctx context.Context, args []string) (int, error) {
	if sh.main {
		sh.set("PWD", sh.dir, true)
	}
	var src string
	switch {
	case len(args) == 0:
		data, err := sh.input(ctx, "-")
		if src = string(data); err != nil {
			return 2, err
		}
	case len(args) > 1 && args[0] == "-c":
		src = args[1]
		if len(args) > 2 {
			sh.name, sh.args = args[2], args[3:]
		}
	default:
		return sh.complain(2, "sh: %s is not supported", args[0])
	}
	err := sh.contain(sh, sh.eval(ctx, src))
	return sh.status, err
}

// eval runs text as a script in this shell.
func (sh *shell) eval(ctx context.Context, src string) error {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(src), "")
	if err != nil {
		return sh.fail("syntax error: %v", err)
	}
	return sh.stmts(ctx, file.Stmts)
}

// fail prints why, and ends the shell with code 2.
func (sh *shell) fail(format string, args ...any) error {
	fmt.Fprintf(sh.stderr, sh.name+": "+format+"\n", args...)
	return exited{2}
}

// complain prints why a program fails, and returns its code.
func (sh *shell) complain(code int, format string, args ...any) (int, error) {
	fmt.Fprintf(sh.stderr, format+"\n", args...)
	return code, nil
}

// exited unwinds a shell that exits.
type exited struct{ code int }

func (e exited) Error() string { return fmt.Sprintf("exit %d", e.code) }

// locked lets concurrent jobs write to one stream.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
