package ash

import (
	"context"
	"errors"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
)

// shell is one shell: the process's main one, or a copy that runs ( ), $( ), a
// pipeline's part or a job.
type shell struct {
	process    *Process
	signals    *signals
	jobs       *jobs
	main       bool // traps run here
	background bool // hears no signal

	name     string
	args     []string
	dir      string
	vars     map[string]string
	exported map[string]bool
	order    []string // of exported variables
	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer

	status   int
	lastJob  string
	errexit  bool
	nounset  bool
	tolerant int // depth of conditions, where a failure is an answer
}

// child copies the shell.
func (sh *shell) child() *shell {
	c := *sh
	c.main = false
	c.vars = maps.Clone(sh.vars)
	c.exported = maps.Clone(sh.exported)
	c.order = slices.Clone(sh.order)
	return &c
}

func (sh *shell) abs(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(sh.dir, p)
	}
	return path.Clean(p)
}

func (sh *shell) set(name, value string) { sh.vars[name] = value }

func (sh *shell) export(name string) {
	if !sh.exported[name] {
		sh.exported[name] = true
		sh.order = append(sh.order, name)
	}
}

// environ lists the exported variables, as env prints them.
func (sh *shell) environ() []string {
	var env []string
	for _, k := range sh.order {
		if v, ok := sh.vars[k]; ok && sh.exported[k] {
			env = append(env, k+"="+v)
		}
	}
	return env
}

// options sets those of set: e and u, and knows of others.
func (sh *shell) options(letters string, on bool) {
	sh.errexit = sh.errexit && !strings.Contains(letters, "e") || on && strings.Contains(letters, "e")
	sh.nounset = sh.nounset && !strings.Contains(letters, "u") || on && strings.Contains(letters, "u")
}

func (sh *shell) run(ctx context.Context, l *list) error {
	for _, item := range l.items {
		if err := sh.check(ctx); err != nil {
			return err
		}
		if item.background {
			sub := sh.child()
			sub.background = true
			sh.lastJob = sh.jobs.start(ctx, func(ctx context.Context) int { return sub.alone(ctx, item) })
			sh.status = 0
			continue
		}
		if err := sh.andOr(ctx, item); err != nil {
			return err
		}
	}
	return sh.check(ctx)
}

// alone runs a job to its code.
func (sh *shell) alone(ctx context.Context, item andOr) int {
	err := sh.andOr(ctx, item)
	if code, left := exitOf(err); left {
		return code
	}
	if err != nil {
		return 143
	}
	return sh.status
}

func (sh *shell) andOr(ctx context.Context, a andOr) error {
	last := a.first
	for i := 0; ; i++ {
		if err := sh.step(ctx, last, i < len(a.rest)); err != nil {
			return err
		}
		for i < len(a.rest) && (a.rest[i].op == "&&") != (sh.status == 0) {
			i++
		}
		if i >= len(a.rest) {
			return nil
		}
		last = a.rest[i].next
	}
}

// step runs one pipeline of a list; its failure counts unless it is tested.
func (sh *shell) step(ctx context.Context, p pipeline, tested bool) error {
	if tested || p.negate {
		sh.tolerant++
		defer func() { sh.tolerant-- }()
	}
	if err := sh.pipeline(ctx, p); err != nil {
		return err
	}
	if sh.errexit && sh.tolerant == 0 && sh.status != 0 {
		return leaving{sh.status}
	}
	return nil
}

func (sh *shell) pipeline(ctx context.Context, p pipeline) error {
	var err error
	if n := len(p.commands); n == 1 {
		err = sh.command(ctx, p.commands[0])
	} else {
		err = sh.pipe(ctx, p.commands)
	}
	if p.negate {
		sh.status = int(truth(sh.status == 0))
	}
	return err
}

// pipe runs commands side by side; when the last ends, so do the others.
func (sh *shell) pipe(ctx context.Context, commands []command) error {
	upstream, stop := context.WithCancel(ctx)
	defer stop()
	stdin := sh.stdin
	for _, c := range commands[:len(commands)-1] {
		r, w := io.Pipe()
		sub := sh.child()
		sub.background, sub.stdin, sub.stdout = true, stdin, w
		sh.jobs.all.Go(func() {
			defer w.Close()
			if err := sub.command(upstream, c); err != nil {
				w.CloseWithError(io.EOF)
			}
		})
		defer r.Close()
		stdin = r
	}
	sub := sh.child()
	sub.stdin = stdin
	err := sub.command(ctx, commands[len(commands)-1])
	if code, left := exitOf(err); left {
		sub.status, err = code, nil
	}
	sh.status = sub.status
	return err
}

func (sh *shell) command(ctx context.Context, c command) error {
	if len(c.redirs) > 0 {
		restore, err := sh.redirect(ctx, c.redirs)
		if err != nil {
			return err
		}
		if restore == nil {
			sh.status = 1
			return nil
		}
		defer restore()
	}
	switch c.kind {
	case "":
		return sh.simple(ctx, c.words)
	case "{":
		return sh.run(ctx, c.clauses[0].body)
	case "(":
		sub := sh.child()
		err := sub.run(ctx, c.clauses[0].body)
		if code, left := exitOf(err); left {
			sub.status, err = code, nil
		}
		sh.status = sub.status
		return err
	case "if":
		return sh.branch(ctx, c)
	case "case":
		return sh.choose(ctx, c)
	}
	return sh.loop(ctx, c)
}

// condition runs a list for its answer.
func (sh *shell) condition(ctx context.Context, l *list) (bool, error) {
	sh.tolerant++
	defer func() { sh.tolerant-- }()
	err := sh.run(ctx, l)
	return sh.status == 0, err
}

func (sh *shell) branch(ctx context.Context, c command) error {
	for _, arm := range c.clauses {
		yes, err := sh.condition(ctx, arm.cond)
		if err != nil {
			return err
		}
		if yes {
			return sh.run(ctx, arm.body)
		}
	}
	sh.status = 0
	if c.orElse == nil {
		return nil
	}
	return sh.run(ctx, c.orElse)
}

func (sh *shell) choose(ctx context.Context, c command) error {
	subject, err := sh.text(ctx, c.words[0])
	if err != nil {
		return err
	}
	sh.status = 0
	for _, arm := range c.clauses {
		for _, w := range arm.words {
			pattern, err := sh.text(ctx, w)
			if err != nil {
				return err
			}
			if ok, err := path.Match(pattern, subject); err == nil && ok {
				return sh.run(ctx, arm.body)
			}
		}
	}
	return nil
}

func (sh *shell) loop(ctx context.Context, c command) error {
	body := c.clauses[0]
	var through []string
	if c.kind == "for" {
		var err error
		if through, err = sh.fields(ctx, body.words); err != nil {
			return err
		}
	}
	status := 0
	for i := 0; ; i++ {
		if c.kind == "for" {
			if i == len(through) {
				break
			}
			sh.set(c.name, through[i])
		} else if yes, err := sh.condition(ctx, body.cond); err != nil {
			return err
		} else if yes != (c.kind == "while") {
			break
		}
		err := sh.run(ctx, body.body)
		status = sh.status
		var j jump
		if errors.As(err, &j) {
			if j.depth > 1 {
				return jump{j.word, j.depth - 1}
			}
			if j.word == "break" {
				break
			}
		} else if err != nil {
			return err
		}
	}
	sh.status = status
	return nil
}

func (sh *shell) simple(ctx context.Context, words []word) error {
	assigned := 0
	for assigned < len(words) && words[assigned].assigns() {
		assigned++
	}
	fields, err := sh.fields(ctx, words[assigned:])
	if err != nil {
		return err
	}
	target := sh
	if len(fields) > 0 && assigned > 0 {
		target = sh.child()
	}
	if len(fields) == 0 {
		sh.status = 0
	}
	for _, w := range words[:assigned] {
		name, _, _ := strings.Cut(w[0].text, "=")
		first := w[0]
		first.text = first.text[len(name)+1:]
		value, err := sh.text(ctx, append(word{first}, w[1:]...))
		if err != nil {
			return err
		}
		target.set(name, value)
		if target != sh {
			target.export(name)
		}
	}
	if len(fields) == 0 {
		return nil
	}
	status, err := target.call(ctx, fields)
	sh.status = status
	return err
}

// assigns tells whether a word is name=value.
func (w word) assigns() bool {
	if len(w) == 0 || w[0].kind != 'l' || w[0].quoted {
		return false
	}
	name, _, ok := strings.Cut(w[0].text, "=")
	return ok && name != "" && nameLength(name) == len(name) && !strings.ContainsAny(name[:1], "?$!#@*-0123456789")
}

func (sh *shell) call(ctx context.Context, fields []string) (int, error) {
	if b := builtins[fields[0]]; b != nil {
		return b(ctx, sh, fields[1:])
	}
	sub := sh
	if name, _ := program(fields); name == "sh" {
		sub = sh.child()
		sub.errexit, sub.nounset, sub.tolerant, sub.status = false, false, 0, 0
		code, err := sub.exec(ctx, fields)
		if left, ok := exitOf(err); ok {
			return left, nil
		}
		return code, err
	}
	return sub.exec(ctx, fields)
}
