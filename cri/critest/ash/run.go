package ash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// shell is one shell. It is the main shell of a process, or a copy that runs ( ), $( ), a part
// of a pipeline, or a job.
type shell struct {
	process    *Process
	signals    *signals
	jobs       *jobs
	main       bool // whether this is the main shell, in which traps run
	background bool // whether this shell runs in the background, and receives no signal

	name   string
	args   []string
	dir    string
	vars   map[string]expand.Variable
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	status int
}

// child copies the shell.
func (sh *shell) child() *shell {
	c := *sh
	c.main = false
	c.vars = maps.Clone(sh.vars)
	return &c
}

// contain converts the error of a subshell to the error for its parent: the exit of a subshell does
// not end its parent.
func (sh *shell) contain(sub *shell, err error) error {
	if e, ok := errors.AsType[exited](err); ok {
		sub.status, err = e.code, nil
	}
	sh.status = sub.status
	return err
}

func (sh *shell) abs(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(sh.dir, p)
	}
	return path.Clean(p)
}

func (sh *shell) stmts(ctx context.Context, list []*syntax.Stmt) error {
	for _, s := range list {
		if err := sh.check(ctx); err != nil {
			return err
		}
		if s.Background {
			job := sh.child()
			job.background = true
			// The error is ignored, because no script checks the exit code of a job.
			sh.jobs.start(func() { _ = job.stmt(ctx, s) })
			sh.status = 0
		} else if err := sh.stmt(ctx, s); err != nil {
			return err
		}
	}
	return sh.check(ctx)
}

func (sh *shell) stmt(ctx context.Context, s *syntax.Stmt) error {
	err := sh.redirected(ctx, s)
	if s.Negated {
		sh.status = statusOf(sh.status != 0)
	}
	return err
}

// redirected runs a statement's command with its redirections. If it cannot open a file, it prints
// the reason and sets the status to 1.
func (sh *shell) redirected(ctx context.Context, s *syntax.Stmt) error {
	if len(s.Redirs) > 0 {
		stdin, stdout, stderr := sh.stdin, sh.stdout, sh.stderr
		defer func() { sh.stdin, sh.stdout, sh.stderr = stdin, stdout, stderr }()
	}
	for _, r := range s.Redirs {
		target, err := sh.text(ctx, r.Word)
		if err != nil {
			return err
		}
		if err := sh.redirect(r, target); err != nil {
			sh.status, _ = sh.complain(1, "%s: %v", sh.name, err)
			return nil
		}
	}
	return sh.command(ctx, s.Cmd)
}

func (sh *shell) redirect(r *syntax.Redirect, target string) error {
	switch r.Op {
	case syntax.RdrIn:
		data, err := sh.process.Files.Read(sh.abs(target))
		if err != nil {
			return fmt.Errorf("can't open %s: %w", target, err)
		}
		sh.stdin = bytes.NewReader(data)
		return nil
	case syntax.DplOut:
		target = map[string]string{"1": "/dev/stdout", "2": "/dev/stderr"}[target]
	case syntax.RdrOut, syntax.AppOut:
	default:
		return fmt.Errorf("%s is not supported", r.Op)
	}
	stream := &sh.stdout
	if r.N != nil {
		stream = map[string]*io.Writer{"1": &sh.stdout, "2": &sh.stderr}[r.N.Value]
	}
	if stream == nil || target == "" {
		return errors.New("bad fd number")
	}
	switch target {
	case "/dev/null":
		*stream = io.Discard
	case "/dev/stdout":
		*stream = sh.stdout
	case "/dev/stderr":
		*stream = sh.stderr
	default:
		file := fileWriter{sh.process.Files, sh.abs(target)}
		if err := file.files.Write(file.path, nil, r.Op == syntax.AppOut); err != nil {
			return fmt.Errorf("can't create %s: %w", target, err)
		}
		*stream = file
	}
	return nil
}

// fileWriter appends to a file.
type fileWriter struct {
	files Files
	path  string
}

func (f fileWriter) Write(b []byte) (int, error) {
	if err := f.files.Write(f.path, b, true); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (sh *shell) command(ctx context.Context, c syntax.Command) error {
	switch c := c.(type) {
	case *syntax.CallExpr:
		return sh.call(ctx, c)
	case *syntax.BinaryCmd:
		if c.Op == syntax.Pipe {
			return sh.pipe(ctx, c)
		}
		if err := sh.stmt(ctx, c.X); err != nil || (sh.status == 0) != (c.Op == syntax.AndStmt) {
			return err
		}
		return sh.stmt(ctx, c.Y)
	case *syntax.Block:
		return sh.stmts(ctx, c.Stmts)
	case *syntax.Subshell:
		sub := sh.child()
		return sh.contain(sub, sub.stmts(ctx, c.Stmts))
	case *syntax.IfClause:
		return sh.branch(ctx, c)
	case *syntax.WhileClause:
		return sh.loop(ctx, c)
	}
	return sh.fail("%T is not supported", c)
}

// pipe runs two commands concurrently. When the second one exits, it stops the first one.
func (sh *shell) pipe(ctx context.Context, c *syntax.BinaryCmd) error {
	upstream, stop := context.WithCancel(ctx)
	defer stop()
	r, w := io.Pipe()
	defer r.Close()
	from, to := sh.child(), sh.child()
	from.background, from.stdout, to.stdin = true, w, r
	sh.jobs.all.Go(func() {
		defer w.Close()
		// The status of a pipeline is the status of its second command.
		_ = from.stmt(upstream, c.X)
	})
	return sh.contain(to, to.stmt(ctx, c.Y))
}

func (sh *shell) branch(ctx context.Context, c *syntax.IfClause) error {
	for ; c != nil; c = c.Else {
		// This is an else without a condition.
		sh.status = 0
		if err := sh.stmts(ctx, c.Cond); err != nil {
			return err
		}
		if sh.status == 0 {
			return sh.stmts(ctx, c.Then)
		}
	}
	sh.status = 0
	return nil
}

func (sh *shell) loop(ctx context.Context, c *syntax.WhileClause) error {
	for status := 0; ; status = sh.status {
		if err := sh.stmts(ctx, c.Cond); err != nil {
			return err
		}
		if (sh.status == 0) == c.Until {
			sh.status = status
			return nil
		}
		if err := sh.stmts(ctx, c.Do); err != nil {
			return err
		}
	}
}

// call runs a builtin or a program, or assigns variables.
func (sh *shell) call(ctx context.Context, c *syntax.CallExpr) error {
	fields, err := sh.fields(ctx, c.Args)
	if err != nil {
		return err
	}
	if len(fields) > 0 && len(c.Assigns) > 0 {
		return sh.fail("assignments before a command are not supported")
	}
	if len(fields) == 0 {
		return sh.assign(ctx, c.Assigns)
	}
	if b := builtins[fields[0]]; b != nil {
		sh.status, err = b(ctx, sh, fields[1:])
		return err
	}
	sub := sh
	if name, _ := program(fields); name == "sh" {
		sub = sh.child()
	}
	sh.status, err = sub.exec(ctx, fields)
	return err
}

// assign sets variables. The status is that of the last substitution; without a substitution,
// it is 0.
func (sh *shell) assign(ctx context.Context, assigns []*syntax.Assign) error {
	sh.status = 0
	for _, a := range assigns {
		value, err := sh.text(ctx, a.Value)
		if err != nil {
			return err
		}
		sh.set(a.Name.Value, value, false)
	}
	return nil
}
