package ash

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"strings"
)

func grep(ctx context.Context, sh *shell, args []string) (int, error) {
	flags, args := split(args)
	if len(args) == 0 {
		return 2, nil
	}
	pattern := args[0]
	if strings.Contains(flags, "F") {
		pattern = regexp.QuoteMeta(pattern)
	}
	if strings.Contains(flags, "i") {
		pattern = "(?i)" + pattern
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return sh.complain(2, "grep: bad regex '%s'", args[0])
	}
	lines, code, err := sh.lines(ctx, "grep", args[1:])
	if err != nil || code != 0 {
		return 2, err
	}
	count := 0
	for _, l := range lines {
		if re.MatchString(l) == strings.Contains(flags, "v") {
			continue
		}
		count++
		if !strings.ContainsAny(flags, "qc") {
			fmt.Fprintln(sh.stdout, l)
		}
	}
	if strings.Contains(flags, "c") {
		fmt.Fprintln(sh.stdout, count)
	}
	return int(truth(count == 0)), nil
}

// split takes the flags off the front.
func split(args []string) (string, []string) {
	flags := ""
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		flags += args[0][1:]
		args = args[1:]
	}
	return flags, args
}

// lines reads files, or stdin, by line.
func (sh *shell) lines(ctx context.Context, name string, files []string) ([]string, int, error) {
	if len(files) == 0 {
		files = []string{"-"}
	}
	var out []string
	for _, f := range files {
		data, err := sh.input(ctx, f)
		if ctx.Err() != nil {
			return nil, 1, ctx.Err()
		}
		if err != nil {
			code, err := sh.complain(1, "%s: %s: %v", name, f, err)
			return nil, code, err
		}
		if len(data) > 0 {
			out = append(out, strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")...)
		}
	}
	return out, 0, nil
}

func wc(ctx context.Context, sh *shell, args []string) (int, error) {
	flags, files := split(args)
	lines, code, err := sh.lines(ctx, "wc", files)
	if err != nil || code != 0 {
		return code, err
	}
	n := len(lines)
	if flags == "c" {
		n += len(strings.Join(lines, ""))
	}
	suffix := ""
	if len(files) > 0 {
		suffix = " " + files[0]
	}
	return sh.print(fmt.Sprintf("%d%s\n", n, suffix))
}

func head(ctx context.Context, sh *shell, args []string) (int, error) {
	n, files := count(args)
	if len(files) == 0 && sh.stdin != Open {
		return sh.first(n)
	}
	lines, code, err := sh.lines(ctx, "head", files)
	if err != nil || code != 0 {
		return code, err
	}
	return sh.printLines(lines[:min(n, len(lines))])
}

// first prints stdin's first lines and reads no more: there may be no end.
func (sh *shell) first(n int) (int, error) {
	in := bufio.NewScanner(sh.stdin)
	var lines []string
	for len(lines) < n && in.Scan() {
		lines = append(lines, in.Text())
	}
	return sh.printLines(lines)
}

func tail(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) > 0 && args[0] == "-f" {
		return 0, sh.never(ctx)
	}
	n, files := count(args)
	lines, code, err := sh.lines(ctx, "tail", files)
	if err != nil || code != 0 {
		return code, err
	}
	return sh.printLines(lines[max(0, len(lines)-n):])
}

// count reads -n 5, -n5 and -5.
func count(args []string) (int, []string) {
	if len(args) > 1 && args[0] == "-n" {
		return number(args[1:], 10), args[2:]
	}
	flags, files := split(args)
	return number([]string{strings.TrimPrefix(flags, "n")}, 10), files
}

func (sh *shell) printLines(lines []string) (int, error) {
	if len(lines) == 0 {
		return 0, nil
	}
	return sh.print(strings.Join(lines, "\n") + "\n")
}
