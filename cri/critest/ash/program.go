package ash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
)

// command implements a builtin or a program. It returns the exit code, and an error if the shell
// must exit.
type command = func(ctx context.Context, sh *shell, args []string) (int, error)

// programs are the programs of busybox; builtins are the commands that change the shell itself.
// init sets both, because an initializer would depend on itself: exec refers to them through the
// shell.
var programs, builtins map[string]command

func init() {
	programs = map[string]command{
		"true": returns(0), "false": returns(1), "echo": echo, "printf": printf, "cat": cat, "sleep": sleep,
		"test": test, "[": bracket, "touch": touch, "mkdir": mkdir, "ls": ls, "id": id, "env": env, "tar": pack,
		"hostname": func(_ context.Context, sh *shell, _ []string) (int, error) { return sh.print(sh.process.Hostname) },
		"pwd":      func(_ context.Context, sh *shell, _ []string) (int, error) { return sh.print(sh.dir) },
	}
	builtins = map[string]command{
		":": returns(0), "exit": exit, "trap": trap, "wait": wait, "kill": kill, "cd": cd, "read": read, "exec": replace,
	}
	for _, name := range []string{".", "break", "continue", "eval", "export", "local", "return", "set", "shift", "unset"} {
		builtins[name] = func(_ context.Context, sh *shell, _ []string) (int, error) {
			return 2, sh.fail("%s is not supported", name)
		}
	}
}

func returns(code int) command {
	return func(context.Context, *shell, []string) (int, error) { return code, nil }
}

// print writes all lines with one write, as a program that buffers its output does.
func (sh *shell) print(lines ...string) (int, error) {
	if len(lines) == 0 {
		return 0, nil
	}
	_, err := io.WriteString(sh.stdout, strings.Join(lines, "\n")+"\n")
	return statusOf(err == nil), nil
}

// statusOf returns 0 for true and 1 for false.
func statusOf(holds bool) int {
	if holds {
		return 0
	}
	return 1
}

func exit(_ context.Context, sh *shell, args []string) (int, error) {
	code := sh.status
	if len(args) > 0 {
		n, err := strconv.Atoi(args[0])
		if err != nil {
			return 2, sh.fail("exit: Illegal number: %s", args[0])
		}
		code = n & 255
	}
	return code, exited{code}
}

func cd(_ context.Context, sh *shell, args []string) (int, error) {
	to := sh.abs(strings.Join(args, " "))
	if sh.process.Files.Kind(to) != 'd' {
		return sh.complain(2, "cd: can't cd to %s: No such file or directory", to)
	}
	sh.dir = to
	sh.set("PWD", sh.dir, true)
	return 0, nil
}

// read reads a line into variables; the last variable gets the rest of the line.
func read(ctx context.Context, sh *shell, names []string) (int, error) {
	buffered, ok := sh.stdin.(*bufio.Reader)
	if !ok {
		buffered = bufio.NewReader(sh.stdin)
		sh.stdin = buffered
	}
	var line string
	var end error
	if err := sh.blocking(ctx, func() { line, end = buffered.ReadString('\n') }); err != nil {
		return 1, err
	}
	values := expand.ReadFields(sh.expansion(ctx), strings.TrimSpace(line), len(names), false)
	for i, name := range names {
		sh.set(name, strings.Join(values[min(i, len(values)):min(i+1, len(values))], ""), false)
	}
	return statusOf(!errors.Is(end, io.EOF)), nil
}

// replace implements exec. The program that replaces the shell does not inherit the shell's
// traps, but ignores the signals that the shell ignores.
func replace(ctx context.Context, sh *shell, args []string) (int, error) {
	if sh.main && sh.signals.handler != "" {
		*sh.signals = signals{}
	}
	code, err := sh.exec(ctx, args)
	if err == nil {
		err = exited{code}
	}
	return code, err
}

func echo(_ context.Context, sh *shell, args []string) (int, error) {
	return sh.print(strings.Join(args, " "))
}

func printf(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) == 0 {
		return sh.complain(1, "usage: printf FORMAT [ARGUMENT...]")
	}
	text, _, err := expand.Format(sh.expansion(ctx), args[0], args[1:])
	if err != nil {
		return sh.complain(1, "printf: %v", err)
	}
	_, err = io.WriteString(sh.stdout, text)
	return statusOf(err == nil), nil
}

func cat(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) == 0 {
		args = []string{"-"}
	}
	code := 0
	for _, a := range args {
		data, err := sh.input(ctx, a)
		if ctx.Err() != nil {
			return 1, ctx.Err()
		}
		if err != nil {
			code, _ = sh.complain(1, "cat: can't open '%s': %v", a, err)
		} else if _, err := sh.stdout.Write(data); err != nil {
			return 1, nil
		}
	}
	return code, nil
}

// input reads a whole file, or stdin for "-".
func (sh *shell) input(ctx context.Context, name string) ([]byte, error) {
	if name != "-" {
		return sh.process.Files.Read(sh.abs(name))
	}
	var data []byte
	var end error
	if err := sh.blocking(ctx, func() { data, end = io.ReadAll(sh.stdin) }); err != nil {
		return nil, err
	}
	return data, end
}

// blocking calls read, which reads stdin, and waits until it returns or the process ends.
func (sh *shell) blocking(ctx context.Context, read func()) error {
	done := make(chan struct{})
	go func() {
		read()
		close(done)
	}()
	return until(ctx, sh, done, false)
}

// sleep sleeps for a number of seconds.
func sleep(ctx context.Context, sh *shell, args []string) (int, error) {
	d, err := time.ParseDuration(strings.Join(args, " ") + "s")
	if err != nil {
		return sh.complain(1, "sleep: invalid number '%s'", strings.Join(args, " "))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	return 0, until(ctx, sh, timer.C, false)
}

// env prints the environment.
func env(_ context.Context, sh *shell, args []string) (int, error) {
	if len(args) > 0 {
		return sh.complain(1, "env: arguments are not supported")
	}
	return sh.print(sh.environ()...)
}

func id(_ context.Context, sh *shell, args []string) (int, error) {
	switch strings.Join(args, " ") {
	case "-u":
		return sh.print(fmt.Sprint(sh.process.UID))
	case "-g":
		return sh.print(fmt.Sprint(sh.process.GID))
	}
	return sh.complain(1, "id: only -u and -g are supported")
}

func touch(_ context.Context, sh *shell, files []string) (int, error) {
	for _, f := range files {
		if err := sh.process.Files.Write(sh.abs(f), nil, true); err != nil {
			return sh.complain(1, "touch: %s: %v", f, err)
		}
	}
	return 0, nil
}

func mkdir(_ context.Context, sh *shell, dirs []string) (int, error) {
	for _, d := range dirs {
		err := errors.New("File exists")
		if sh.process.Files.Kind(sh.abs(d)) == 0 {
			err = sh.process.Files.MakeDir(sh.abs(d))
		}
		if err != nil {
			return sh.complain(1, "mkdir: can't create directory '%s': %v", d, err)
		}
	}
	return 0, nil
}

// ls lists one directory.
func ls(_ context.Context, sh *shell, args []string) (int, error) {
	dir := strings.Join(args, " ")
	if sh.process.Files.Kind(sh.abs(dir)) != 'd' {
		return sh.complain(1, "ls: %s: No such file or directory", dir)
	}
	names, err := sh.process.Files.List(sh.abs(dir))
	if err != nil {
		return sh.complain(1, "ls: %s: %v", dir, err)
	}
	return sh.print(names...)
}

func bracket(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) == 0 || args[len(args)-1] != "]" {
		return sh.complain(2, "sh: missing ]")
	}
	return test(ctx, sh, args[:len(args)-1])
}

// test implements !, and the unary and binary primaries.
func test(_ context.Context, sh *shell, args []string) (int, error) {
	negated := len(args) > 1 && args[0] == "!"
	if negated {
		args = args[1:]
	}
	var op string
	var holds map[string]bool
	switch len(args) {
	case 0, 1:
		holds = map[string]bool{"": len(args) == 1 && args[0] != ""}
	case 2:
		kind := sh.process.Files.Kind(sh.abs(args[1]))
		op, holds = args[0], map[string]bool{"-n": args[1] != "", "-z": args[1] == "", "-e": kind != 0, "-f": kind == 'f', "-d": kind == 'd'}
	case 3:
		op, holds = args[1], map[string]bool{"=": args[0] == args[2], "!=": args[0] != args[2]}
		x, err := strconv.Atoi(args[0])
		if y, err2 := strconv.Atoi(args[2]); err == nil && err2 == nil {
			holds["-eq"], holds["-ne"], holds["-lt"], holds["-gt"] = x == y, x != y, x < y, x > y
		}
	}
	answer, ok := holds[op]
	if !ok {
		return sh.complain(2, "sh: %s: unknown operand", strings.Join(args, " "))
	}
	return statusOf(answer != negated), nil
}
