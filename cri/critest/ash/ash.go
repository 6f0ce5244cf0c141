// Package ash is a small shell for the containers of tests. It interprets scripts with the packages
// syntax and expand of mvdan.cc/sh, and contains the few busybox programs that tests run. It does
// not use the interpreter of that module. That interpreter connects pipelines with kernel pipes,
// for which testing/synctest cannot wait, and it does not support a trap for TERM.
//
// The shell uses only the resources that its Process provides. It waits only for timers and
// channels, so it can run inside testing/synctest.
//
// Signals work as for a container's process. TERM runs the trap: immediately during a wait,
// otherwise between two commands. Without a trap, TERM terminates the process, unless the process
// is process 1 of a PID namespace: the kernel does not deliver signals without a handler to that
// process.
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

// Files is the file system that a process sees. Paths are absolute and clean. The text of an error does not contain
// the path, because the shell prints the path before the error.
type Files interface {
	Read(path string) ([]byte, error)
	Write(path string, data []byte, appending bool) error
	// Kind returns 'f' for a file, 'd' for a directory and 0 if the path does not exist.
	Kind(path string) byte
	List(path string) ([]string, error)
	MakeDir(path string) error
}

// Process is a program to run, with its environment, streams and files.
type Process struct {
	Args []string
	Env  []string // KEY=value
	Dir  string   // working directory; "" means /
	// nil means an empty input; a blocked read must return when the process has exited
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
	Files    Files
	Hostname string
	UID, GID int64

	// Init means that the process is process 1 of its PID namespace.
	Init bool
	// TERM receives a value when the process gets the signal. It is nil if the process never gets
	// the signal.
	TERM <-chan struct{}
}

// Known reports whether the first of args is the name of a program of this shell.
func Known(args []string) bool {
	name, _ := program(args)
	return name == "sh" || programs[name] != nil
}

// program strips the directory from the program's path.
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

// Run runs a process until it exits and returns its exit code: 127 if there is no such program, 137
// if ctx ends first. When Run returns, all goroutines of the process have exited.
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

// exec runs a program. If the program is sh -c, it runs the script in this shell.
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

// script runs sh -c SCRIPT [NAME [ARG...]]. Without arguments, it reads the script from stdin.
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

// fail prints the reason, and exits the shell with code 2.
func (sh *shell) fail(format string, args ...any) error {
	fmt.Fprintf(sh.stderr, sh.name+": "+format+"\n", args...)
	return exited{2}
}

// complain prints why a program fails, and returns the program's exit code.
func (sh *shell) complain(code int, format string, args ...any) (int, error) {
	fmt.Fprintf(sh.stderr, format+"\n", args...)
	return code, nil
}

// exited is the error that ends the evaluation of a shell's commands when the shell exits.
type exited struct{ code int }

func (e exited) Error() string { return fmt.Sprintf("exit %d", e.code) }

// locked serializes the writes of concurrent jobs to a stream.
type locked struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
