package ash

import (
	"context"
	"path"
	"strconv"
	"strings"
)

func touch(_ context.Context, sh *shell, args []string) (int, error) {
	_, files := split(args)
	for _, f := range files {
		if err := sh.process.Files.Write(sh.abs(f), nil, true); err != nil {
			return sh.complain(1, "touch: %s: %v", f, err)
		}
	}
	return 0, nil
}

func rm(_ context.Context, sh *shell, args []string) (int, error) {
	flags, files := split(args)
	for _, f := range files {
		err := sh.process.Files.Remove(sh.abs(f))
		if err != nil && !strings.Contains(flags, "f") {
			return sh.complain(1, "rm: can't remove '%s': %v", f, err)
		}
	}
	return 0, nil
}

func mkdir(_ context.Context, sh *shell, args []string) (int, error) {
	flags, dirs := split(args)
	for _, d := range dirs {
		kind := sh.process.Files.Kind(sh.abs(d))
		if kind == 'd' && strings.Contains(flags, "p") {
			continue
		}
		if kind != 0 {
			return sh.complain(1, "mkdir: can't create directory '%s': File exists", d)
		}
		if err := sh.makeDir(sh.abs(d), strings.Contains(flags, "p")); err != nil {
			return sh.complain(1, "mkdir: can't create directory '%s': %v", d, err)
		}
	}
	return 0, nil
}

func (sh *shell) makeDir(dir string, parents bool) error {
	if up := path.Dir(dir); parents && sh.process.Files.Kind(up) == 0 {
		if err := sh.makeDir(up, parents); err != nil {
			return err
		}
	}
	return sh.process.Files.MakeDir(dir)
}

func ls(_ context.Context, sh *shell, args []string) (int, error) {
	_, dirs := split(args)
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	for _, d := range dirs {
		switch sh.process.Files.Kind(sh.abs(d)) {
		case 'f':
			sh.printLines([]string{d})
			continue
		case 0:
			return sh.complain(1, "ls: %s: No such file or directory", d)
		}
		names, err := sh.process.Files.List(sh.abs(d))
		if err != nil {
			return sh.complain(1, "ls: %s: %v", d, err)
		}
		if code, err := sh.printLines(names); code != 0 || err != nil {
			return code, err
		}
	}
	return 0, nil
}

// cp copies one file.
func cp(_ context.Context, sh *shell, args []string) (int, error) {
	_, files := split(args)
	if len(files) != 2 {
		return sh.complain(1, "cp: want one source and one target")
	}
	data, err := sh.process.Files.Read(sh.abs(files[0]))
	if err != nil {
		return sh.complain(1, "cp: can't stat '%s': %v", files[0], err)
	}
	to := sh.abs(files[1])
	if sh.process.Files.Kind(to) == 'd' {
		to = path.Join(to, path.Base(files[0]))
	}
	if err := sh.process.Files.Write(to, data, false); err != nil {
		return sh.complain(1, "cp: can't create '%s': %v", files[1], err)
	}
	return 0, nil
}

func mv(ctx context.Context, sh *shell, args []string) (int, error) {
	if code, err := cp(ctx, sh, args); code != 0 || err != nil {
		return code, err
	}
	_, files := split(args)
	return rm(ctx, sh, files[:1])
}

func bracket(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) == 0 || args[len(args)-1] != "]" {
		return sh.complain(2, "sh: missing ]")
	}
	return test(ctx, sh, args[:len(args)-1])
}

// test knows !, the unary and the binary primaries.
func test(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) > 0 && args[0] == "!" {
		code, err := test(ctx, sh, args[1:])
		if code < 2 {
			code = 1 - code
		}
		return code, err
	}
	switch len(args) {
	case 0:
		return 1, nil
	case 1:
		return int(truth(args[0] == "")), nil
	case 2:
		return sh.testOne(args[0], args[1])
	case 3:
		return sh.testTwo(args[0], args[1], args[2])
	}
	return sh.complain(2, "sh: %s: unknown operand", args[1])
}

func (sh *shell) testOne(op, arg string) (int, error) {
	kind := byte(0)
	if arg != "" {
		kind = sh.process.Files.Kind(sh.abs(arg))
	}
	holds := false
	switch op {
	case "-n":
		holds = arg != ""
	case "-z":
		holds = arg == ""
	case "-e", "-r", "-w", "-x":
		holds = kind != 0
	case "-f":
		holds = kind == 'f'
	case "-d":
		holds = kind == 'd'
	case "-s":
		data, err := sh.process.Files.Read(sh.abs(arg))
		holds = err == nil && len(data) > 0
	default:
		return sh.complain(2, "sh: %s: unknown operand", op)
	}
	return int(truth(!holds)), nil
}

func (sh *shell) testTwo(a, op, b string) (int, error) {
	switch op {
	case "=", "==":
		return int(truth(a != b)), nil
	case "!=":
		return int(truth(a == b)), nil
	}
	x, err := strconv.ParseInt(a, 10, 64)
	if err != nil {
		return sh.complain(2, "sh: %s: bad number", a)
	}
	y, err := strconv.ParseInt(b, 10, 64)
	if err != nil {
		return sh.complain(2, "sh: %s: bad number", b)
	}
	holds, ok := map[string]bool{"-eq": x == y, "-ne": x != y, "-lt": x < y, "-le": x <= y, "-gt": x > y, "-ge": x >= y}[op]
	if !ok {
		return sh.complain(2, "sh: %s: unknown operand", op)
	}
	return int(truth(!holds)), nil
}
