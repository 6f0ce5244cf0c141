package ash

import (
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

type applet = func(ctx context.Context, sh *shell, args []string) (int, error)

// applets are the programs. It is filled in by init, as env and timeout run
// others.
var applets map[string]applet

func init() {
	applets = map[string]applet{
		"true": yes, "false": no, "echo": echo, "printf": printf, "cat": cat,
		"sleep": sleep, "hostname": hostname, "env": env, "printenv": printenv,
		"kill": kill, "test": test, "[": bracket, "pwd": pwd, "date": date,
		"seq": seq, "touch": touch, "rm": rm, "mkdir": mkdir, "ls": ls, "id": id,
		"grep": grep, "wc": wc, "head": head, "tail": tail, "sync": yes, "timeout": timeout,
		"basename": basename, "dirname": dirname, "cp": cp, "mv": mv,
	}
}

func yes(context.Context, *shell, []string) (int, error) { return 0, nil }
func no(context.Context, *shell, []string) (int, error)  { return 1, nil }

func echo(_ context.Context, sh *shell, args []string) (int, error) {
	end, escapes := "\n", false
	for len(args) > 0 && (args[0] == "-n" || args[0] == "-e" || args[0] == "-ne" || args[0] == "-en") {
		if strings.Contains(args[0], "n") {
			end = ""
		}
		escapes = escapes || strings.Contains(args[0], "e")
		args = args[1:]
	}
	text := strings.Join(args, " ")
	if escapes {
		text = unescape(text)
	}
	return sh.print(text + end)
}

// print writes in one piece, as a program's buffer is.
func (sh *shell) print(s string) (int, error) {
	if _, err := io.WriteString(sh.stdout, s); err != nil {
		return 1, nil
	}
	return 0, nil
}

var escapes = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\r`, "\r", `\033`, "\x1b", `\e`, "\x1b", `\0`, "\x00")

func unescape(s string) string { return escapes.Replace(s) }

var directive = regexp.MustCompile(`%(-?[0-9]*)([%a-z])`)

// printf knows %s %d %b %% with a width, and goes round again while arguments
// are left.
func printf(_ context.Context, sh *shell, args []string) (int, error) {
	if len(args) == 0 {
		return 1, nil
	}
	format, args := unescape(args[0]), args[1:]
	var b strings.Builder
	for {
		before := len(args)
		b.WriteString(directive.ReplaceAllStringFunc(format, func(d string) string {
			width, verb := d[1:len(d)-1], d[len(d)-1]
			if verb == '%' {
				return "%"
			}
			arg := ""
			if len(args) > 0 {
				arg, args = args[0], args[1:]
			}
			switch {
			case verb == 'd' && arg == "":
				arg = "0"
			case verb == 'b':
				arg = unescape(arg)
			}
			return fmt.Sprintf("%"+strings.TrimPrefix(width, "0")+"s", arg)
		}))
		if len(args) == 0 || len(args) == before {
			return sh.print(b.String())
		}
	}
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
			fmt.Fprintf(sh.stderr, "cat: can't open '%s': %v\n", a, err)
			code = 1
			continue
		}
		if _, err := sh.stdout.Write(data); err != nil {
			return 1, nil
		}
	}
	return code, nil
}

// input reads a file whole, or stdin for "-".
func (sh *shell) input(ctx context.Context, name string) ([]byte, error) {
	switch name {
	case "/dev/null":
		return nil, nil
	case "-", "/dev/stdin":
		if sh.stdin == Open {
			return nil, sh.never(ctx)
		}
		return io.ReadAll(sh.stdin)
	}
	return sh.process.Files.Read(sh.abs(name))
}

// Open is a stdin that stays open and never says anything.
var Open io.Reader = open{}

type open struct{}

func (open) Read([]byte) (int, error) { return 0, io.EOF }

func sleep(ctx context.Context, sh *shell, args []string) (int, error) {
	var total time.Duration
	for _, a := range args {
		if strings.HasPrefix(a, "inf") {
			return 0, sh.never(ctx)
		}
		d, ok := duration(a)
		if !ok {
			return sh.complain(1, "sleep: invalid number '%s'", a)
		}
		total += d
	}
	if len(args) == 0 {
		return sh.complain(1, "sleep: missing operand")
	}
	return 0, sh.sleep(ctx, total)
}

func duration(s string) (time.Duration, bool) {
	unit := time.Second
	if s != "" {
		if u, ok := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[s[len(s)-1]]; ok {
			unit, s = u, s[:len(s)-1]
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	return time.Duration(n * float64(unit)), err == nil && n >= 0
}

func timeout(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) > 1 && args[0] == "-t" {
		args = args[1:]
	}
	if len(args) < 2 {
		return 125, nil
	}
	d, ok := duration(args[0])
	if !ok {
		return sh.complain(125, "timeout: invalid number '%s'", args[0])
	}
	bounded, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	code, err := sh.exec(bounded, args[1:])
	if bounded.Err() != nil && ctx.Err() == nil {
		return 143, nil
	}
	return code, err
}

func hostname(_ context.Context, sh *shell, _ []string) (int, error) {
	return sh.print(sh.process.Hostname + "\n")
}

func env(ctx context.Context, sh *shell, args []string) (int, error) {
	sub := sh.child()
	for len(args) > 0 && strings.Contains(args[0], "=") {
		name, value, _ := strings.Cut(args[0], "=")
		sub.set(name, value)
		sub.export(name)
		args = args[1:]
	}
	if len(args) > 0 {
		return sub.exec(ctx, args)
	}
	all := sub.environ()
	if len(all) == 0 {
		return 0, nil
	}
	return sh.print(strings.Join(all, "\n") + "\n")
}

func printenv(ctx context.Context, sh *shell, args []string) (int, error) {
	if len(args) == 0 {
		return env(ctx, sh, nil)
	}
	code := 0
	for _, a := range args {
		if v, ok := sh.vars[a]; ok && sh.exported[a] {
			fmt.Fprintln(sh.stdout, v)
		} else {
			code = 1
		}
	}
	return code, nil
}

func pwd(_ context.Context, sh *shell, _ []string) (int, error) { return sh.print(sh.dir + "\n") }

func basename(_ context.Context, sh *shell, args []string) (int, error) {
	return sh.print(path.Base(strings.Join(args, " ")) + "\n")
}

func dirname(_ context.Context, sh *shell, args []string) (int, error) {
	return sh.print(path.Dir(strings.Join(args, " ")) + "\n")
}

// date prints the time in UTC: %s %N %Y %m %d %H %M %S.
func date(_ context.Context, sh *shell, args []string) (int, error) {
	now := time.Now().UTC()
	if len(args) == 0 || !strings.HasPrefix(args[len(args)-1], "+") {
		return sh.print(now.Format("Mon Jan _2 15:04:05 MST 2006") + "\n")
	}
	text := strings.NewReplacer("%s", strconv.FormatInt(now.Unix(), 10), "%N", fmt.Sprintf("%09d", now.Nanosecond()),
		"%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"),
		"%H", now.Format("15"), "%M", now.Format("04"), "%S", now.Format("05")).Replace(args[len(args)-1][1:])
	return sh.print(text + "\n")
}

func seq(_ context.Context, sh *shell, args []string) (int, error) {
	from, to := 1, number(args, 0)
	if len(args) > 1 {
		from, to = number(args, 1), number(args[len(args)-1:], 0)
	}
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintln(&b, i)
	}
	return sh.print(b.String())
}

func id(_ context.Context, sh *shell, args []string) (int, error) {
	p := sh.process
	switch strings.Join(args, "") {
	case "-u":
		return sh.print(fmt.Sprintf("%d\n", p.UID))
	case "-g":
		return sh.print(fmt.Sprintf("%d\n", p.GID))
	}
	return sh.print(fmt.Sprintf("uid=%d gid=%d\n", p.UID, p.GID))
}
