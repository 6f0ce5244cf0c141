package ash

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// builtins change the shell itself. It is filled in by init, as eval refers to
// it by way of the shell.
var builtins map[string]applet

func init() {
	builtins = map[string]applet{
		":": yes, "exit": exit, "trap": trap, "wait": wait, "cd": cd,
		"export": export, "unset": unset, "set": setOptions, "shift": shift,
		"read": read, "break": leave("break"), "continue": leave("continue"),
		"exec": replace, "eval": eval, "local": export, "kill": kill,
	}
}

func number(args []string, otherwise int) int {
	if len(args) > 0 {
		if n, err := strconv.Atoi(args[0]); err == nil {
			return n
		}
	}
	return otherwise
}

func exit(_ context.Context, sh *shell, args []string) (int, error) {
	code := number(args, sh.status) & 255
	return code, leaving{code}
}

func leave(word string) applet {
	return func(_ context.Context, _ *shell, args []string) (int, error) {
		return 0, jump{word, number(args, 1)}
	}
}

// trap sets a handler: trap 'commands' TERM, trap "" TERM, trap - TERM.
func trap(_ context.Context, sh *shell, args []string) (int, error) {
	if len(args) < 2 || !sh.main {
		return 0, nil
	}
	for _, s := range args[1:] {
		if args[0] == "-" {
			delete(sh.signals.handlers, signalName(s))
		} else {
			sh.signals.handlers[signalName(s)] = args[0]
		}
	}
	return 0, nil
}

// wait waits for all jobs, or for those named; a trapped TERM ends it.
func wait(ctx context.Context, sh *shell, args []string) (int, error) {
	code := 0
	if len(args) == 0 {
		args = []string{""}
	}
	for _, pid := range args {
		for _, j := range sh.jobs.find(pid) {
			err := until(ctx, sh, j.done, true)
			if errors.Is(err, errInterrupted) {
				return 143, nil
			}
			if err != nil {
				return 1, err
			}
			if pid != "" {
				code = j.code
			}
		}
	}
	return code, nil
}

func cd(_ context.Context, sh *shell, args []string) (int, error) {
	to := sh.value("HOME")
	if len(args) > 0 {
		to = args[0]
	}
	if sh.process.Files.Kind(sh.abs(to)) != 'd' {
		return sh.complain(2, "cd: can't cd to %s: No such file or directory", to)
	}
	sh.dir = sh.abs(to)
	sh.set("PWD", sh.dir)
	return 0, nil
}

func export(_ context.Context, sh *shell, args []string) (int, error) {
	for _, a := range args {
		name, value, assigned := strings.Cut(a, "=")
		if assigned {
			sh.set(name, value)
		}
		sh.export(name)
	}
	return 0, nil
}

func unset(_ context.Context, sh *shell, args []string) (int, error) {
	for _, a := range args {
		delete(sh.vars, a)
	}
	return 0, nil
}

func setOptions(_ context.Context, sh *shell, args []string) (int, error) {
	for i, a := range args {
		switch {
		case a == "--":
			sh.args = args[i+1:]
			return 0, nil
		case strings.HasPrefix(a, "-"), strings.HasPrefix(a, "+"):
			sh.options(a, a[0] == '-')
		default:
			sh.args = args[i:]
			return 0, nil
		}
	}
	return 0, nil
}

func shift(_ context.Context, sh *shell, args []string) (int, error) {
	n := number(args, 1)
	if n > len(sh.args) {
		return 1, nil
	}
	sh.args = sh.args[n:]
	return 0, nil
}

// read reads a line into variables, the last of which takes the rest.
func read(_ context.Context, sh *shell, names []string) (int, error) {
	if len(names) > 0 && names[0] == "-r" {
		names = names[1:]
	}
	buffered, ok := sh.stdin.(*bufio.Reader)
	if !ok {
		buffered = bufio.NewReader(sh.stdin)
		sh.stdin = buffered
	}
	line, err := buffered.ReadString('\n')
	rest := strings.TrimSpace(strings.TrimSuffix(line, "\n"))
	for i, name := range names {
		value := rest
		if cut := strings.IndexFunc(rest, isBlank); i < len(names)-1 && cut >= 0 {
			value, rest = rest[:cut], strings.TrimSpace(rest[cut:])
		} else {
			rest = ""
		}
		sh.set(name, value)
	}
	return int(truth(errors.Is(err, io.EOF))), nil
}

func replace(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) == 0 {
		return 0, nil
	}
	// The program that takes the shell's place has none of its traps, but goes on
	// ignoring what it ignored.
	for s, handler := range sh.signals.handlers {
		if handler != "" && sh.main {
			delete(sh.signals.handlers, s)
		}
	}
	code, err := sh.exec(ctx, args)
	if err != nil {
		return code, err
	}
	return code, leaving{code}
}

func eval(ctx context.Context, sh *shell, args []string) (int, error) {
	err := sh.eval(ctx, strings.Join(args, " "))
	return sh.status, err
}

func kill(_ context.Context, sh *shell, args []string) (int, error) {
	signal := "TERM"
	if len(args) > 0 && args[0] == "-s" && len(args) > 1 {
		signal, args = signalName(args[1]), args[2:]
	} else if len(args) > 0 && strings.HasPrefix(args[0], "-") {
		signal, args = signalName(args[0][1:]), args[1:]
	}
	code := 0
	for _, pid := range args {
		c, err := sh.kill(signal, pid)
		if err != nil {
			return c, err
		}
		if c != 0 {
			fmt.Fprintf(sh.stderr, "%s: can't kill pid %s: No such process\n", sh.name, pid)
			code = c
		}
	}
	return code, nil
}

// complain says what is wrong and gives the code.
func (sh *shell) complain(code int, format string, args ...any) (int, error) {
	fmt.Fprintf(sh.stderr, format+"\n", args...)
	return code, nil
}
