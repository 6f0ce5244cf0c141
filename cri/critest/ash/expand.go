package ash

import (
	"bytes"
	"context"
	"path"
	"strconv"
	"strings"
)

// fields expands words to the fields they stand for.
func (sh *shell) fields(ctx context.Context, words []word) ([]string, error) {
	var out []string
	for _, w := range words {
		got, err := sh.split(ctx, w)
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// split expands one word and breaks what was not quoted at blanks.
func (sh *shell) split(ctx context.Context, w word) ([]string, error) {
	var out []string
	var cur strings.Builder
	have := false
	flush := func() {
		if have {
			out = append(out, cur.String())
		}
		cur.Reset()
		have = false
	}
	for _, p := range w {
		if p.kind == 'p' && p.text == "@" && p.quoted {
			for i, a := range sh.args {
				if i > 0 {
					flush()
				}
				cur.WriteString(a)
				have = true
			}
			continue
		}
		text, err := sh.expand(ctx, p)
		if err != nil {
			return nil, err
		}
		if p.quoted || p.kind == 'l' {
			cur.WriteString(text)
			have = true
			continue
		}
		for i, f := range strings.FieldsFunc(text, isBlank) {
			if i > 0 || isBlank(rune(text[0])) {
				flush()
			}
			cur.WriteString(f)
			have = true
		}
		if text != "" && isBlank(rune(text[len(text)-1])) {
			flush()
		}
	}
	flush()
	return out, nil
}

func isBlank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' }

// text expands a word to one string, unsplit: for assignments, redirections
// and patterns.
func (sh *shell) text(ctx context.Context, w word) (string, error) {
	var b strings.Builder
	for _, p := range w {
		s, err := sh.expand(ctx, p)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func (sh *shell) expand(ctx context.Context, p part) (string, error) {
	switch p.kind {
	case 'p':
		return sh.parameter(ctx, p)
	case 'c':
		return sh.substitute(ctx, p.list)
	case 'a':
		expr, err := sh.text(ctx, p.arg)
		if err != nil {
			return "", err
		}
		n, err := calculate(expr, sh.value)
		return strconv.FormatInt(n, 10), err
	}
	return p.text, nil
}

// substitute runs a list and gives its output without the last newlines.
func (sh *shell) substitute(ctx context.Context, l *list) (string, error) {
	var out bytes.Buffer
	sub := sh.child()
	sub.stdout = &out
	err := sub.run(ctx, l)
	if code, left := exitOf(err); left {
		sub.status, err = code, nil
	}
	sh.status = sub.status
	return strings.TrimRight(out.String(), "\n"), err
}

func (sh *shell) parameter(ctx context.Context, p part) (string, error) {
	v, set := sh.lookup(p.text)
	switch p.op {
	case "":
		if !set && sh.nounset {
			return "", sh.fail(2, "%s: parameter not set", p.text)
		}
		return v, nil
	case "len":
		return strconv.Itoa(len(v)), nil
	}
	present := set
	if p.op[0] == ':' {
		present = v != ""
	}
	arg, err := sh.text(ctx, p.arg)
	if err != nil {
		return "", err
	}
	switch strings.TrimPrefix(p.op, ":") {
	case "-":
		if present {
			return v, nil
		}
		return arg, nil
	case "=":
		if present {
			return v, nil
		}
		sh.set(p.text, arg)
		return arg, nil
	case "+":
		if present {
			return arg, nil
		}
		return "", nil
	}
	return trim(v, p.op, arg), nil
}

// trim takes the shortest or longest match of a pattern off a value's end.
func trim(v, op, pattern string) string {
	best := v
	for i := 0; i <= len(v); i++ {
		cut, rest := v[:i], v[i:]
		if op[0] == '%' {
			cut, rest = v[len(v)-i:], v[:len(v)-i]
		}
		if ok, err := path.Match(pattern, cut); err == nil && ok {
			best = rest
			if len(op) == 1 {
				break
			}
		}
	}
	return best
}

// value reads a parameter for arithmetic.
func (sh *shell) value(name string) string {
	v, _ := sh.lookup(name)
	return v
}

func (sh *shell) lookup(name string) (string, bool) {
	switch name {
	case "?":
		return strconv.Itoa(sh.status), true
	case "$":
		return strconv.Itoa(sh.pid()), true
	case "!":
		return sh.lastJob, sh.lastJob != ""
	case "#":
		return strconv.Itoa(len(sh.args)), true
	case "@", "*":
		return strings.Join(sh.args, " "), true
	case "-":
		return "", true
	case "0":
		return sh.name, true
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n <= len(sh.args) {
			return sh.args[n-1], true
		}
		return "", false
	}
	v, ok := sh.vars[name]
	return v, ok
}
