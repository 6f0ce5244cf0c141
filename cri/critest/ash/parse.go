package ash

import (
	"fmt"
	"strings"
)

// The tree of a script.
type (
	list struct{ items []andOr }

	andOr struct {
		first      pipeline
		rest       []andOrRest
		background bool
	}
	andOrRest struct {
		op   string // "&&" or "||"
		next pipeline
	}
	pipeline struct {
		negate   bool
		commands []command
	}
	command struct {
		words   []word // of a simple command, its assignments first
		kind    string // of a compound one: "{", "(", "if", "while", "until", "for", "case"
		clauses []clause
		orElse  *list  // of if
		name    string // of for
		redirs  []redir
	}
	// clause is one arm: of if its condition and body, of case its patterns and
	// body; of for the words are what it goes through.
	clause struct {
		cond  *list
		words []word
		body  *list
	}
	redir struct {
		fd     int
		op     string // "<", ">", ">>", ">&"
		target word
	}
)

// parser reads a script from left to right, one token ahead.
type parser struct {
	src    string
	pos    int
	peeked *token
}

func parse(src string) (*list, error) {
	p := &parser{src: src}
	l, err := p.list()
	if err != nil {
		return nil, err
	}
	if t, err := p.peek(); err != nil || t.kind != "eof" {
		return nil, p.unexpected(t, err)
	}
	return l, nil
}

func (p *parser) unexpected(t token, err error) error {
	if err != nil {
		return err
	}
	if t.kind == "word" {
		return fmt.Errorf("syntax error: unexpected %q", t.word.plain())
	}
	return fmt.Errorf("syntax error: unexpected %q", t.kind)
}

// list reads commands up to a token that cannot begin one.
func (p *parser) list() (*list, error) {
	l := &list{}
	for {
		if err := p.skip("\n", ";"); err != nil {
			return nil, err
		}
		t, err := p.peek()
		if err != nil {
			return nil, err
		}
		if t.kind != "word" && t.kind != "(" && !t.redirects() || t.ends() {
			return l, nil
		}
		item, err := p.andOr()
		if err != nil {
			return nil, err
		}
		if t, err = p.peek(); err != nil {
			return nil, err
		}
		if t.kind == "&" {
			item.background = true
			p.peeked = nil
		}
		l.items = append(l.items, item)
	}
}

func (p *parser) skip(kinds ...string) error {
	for {
		t, err := p.peek()
		if err != nil {
			return err
		}
		if !contains(kinds, t.kind) {
			return nil
		}
		p.peeked = nil
	}
}

func (p *parser) andOr() (andOr, error) {
	first, err := p.pipeline()
	a := andOr{first: first}
	for err == nil {
		var t token
		if t, err = p.peek(); err != nil || t.kind != "&&" && t.kind != "||" {
			break
		}
		p.peeked = nil
		if err = p.skip("\n"); err != nil {
			break
		}
		var next pipeline
		next, err = p.pipeline()
		a.rest = append(a.rest, andOrRest{t.kind, next})
	}
	return a, err
}

func (p *parser) pipeline() (pipeline, error) {
	var pl pipeline
	if t, err := p.peek(); err == nil && t.is("!") {
		pl.negate = true
		p.peeked = nil
	}
	for {
		c, err := p.command()
		if err != nil {
			return pl, err
		}
		pl.commands = append(pl.commands, c)
		t, err := p.peek()
		if err != nil || t.kind != "|" {
			return pl, err
		}
		p.peeked = nil
		if err := p.skip("\n"); err != nil {
			return pl, err
		}
	}
}

func (p *parser) command() (command, error) {
	t, err := p.peek()
	if err != nil {
		return command{}, err
	}
	kind := t.kind
	if kind == "word" {
		kind = t.word.reserved()
	}
	var c command
	switch kind {
	case "(", "{":
		c, err = p.group(kind)
	case "if":
		c, err = p.ifClause()
	case "while", "until":
		c, err = p.loop(kind)
	case "for":
		c, err = p.forClause()
	case "case":
		c, err = p.caseClause()
	default:
		return p.simple()
	}
	for err == nil {
		var more bool
		if more, err = p.redirection(&c); !more {
			break
		}
	}
	return c, err
}

func (p *parser) simple() (command, error) {
	var c command
	for {
		t, err := p.peek()
		if err != nil {
			return c, err
		}
		if t.kind == "word" {
			c.words = append(c.words, t.word)
			p.peeked = nil
			continue
		}
		more, err := p.redirection(&c)
		if err != nil {
			return c, err
		}
		if !more {
			break
		}
	}
	if len(c.words) == 0 && len(c.redirs) == 0 {
		t, err := p.peek()
		return c, p.unexpected(t, err)
	}
	return c, nil
}

// redirection reads one, if one is next.
func (p *parser) redirection(c *command) (bool, error) {
	t, err := p.peek()
	if err != nil || !t.redirects() {
		return false, err
	}
	p.peeked = nil
	target, err := p.peek()
	if err != nil || target.kind != "word" {
		return false, p.unexpected(target, err)
	}
	p.peeked = nil
	c.redirs = append(c.redirs, redir{t.fd, t.kind, target.word})
	return true, nil
}

// expect reads one reserved word or operator.
func (p *parser) expect(what string) error {
	if err := p.skip("\n", ";"); err != nil {
		return err
	}
	t, err := p.peek()
	if err != nil || !t.is(what) && t.kind != what {
		return p.unexpected(t, err)
	}
	p.peeked = nil
	return nil
}

// body reads what stands between two words.
func (p *parser) body(from, to string) (*list, error) {
	if err := p.expect(from); err != nil {
		return nil, err
	}
	l, err := p.list()
	if err != nil {
		return nil, err
	}
	if to == "" {
		return l, nil
	}
	return l, p.expect(to)
}

func (p *parser) group(open string) (command, error) {
	closing := map[string]string{"(": ")", "{": "}"}[open]
	l, err := p.body(open, closing)
	return command{kind: open, clauses: []clause{{body: l}}}, err
}

func (p *parser) ifClause() (command, error) {
	c := command{kind: "if"}
	for word := "if"; ; word = "elif" {
		cond, err := p.body(word, "")
		if err != nil {
			return c, err
		}
		body, err := p.body("then", "")
		if err != nil {
			return c, err
		}
		c.clauses = append(c.clauses, clause{cond: cond, body: body})
		t, err := p.peek()
		if err != nil {
			return c, err
		}
		if t.is("elif") {
			continue
		}
		if t.is("else") {
			if c.orElse, err = p.body("else", ""); err != nil {
				return c, err
			}
		}
		return c, p.expect("fi")
	}
}

func (p *parser) loop(kind string) (command, error) {
	cond, err := p.body(kind, "")
	if err != nil {
		return command{}, err
	}
	body, err := p.body("do", "done")
	return command{kind: kind, clauses: []clause{{cond: cond, body: body}}}, err
}

func (p *parser) forClause() (command, error) {
	if err := p.expect("for"); err != nil {
		return command{}, err
	}
	t, err := p.peek()
	if err != nil || t.kind != "word" {
		return command{}, p.unexpected(t, err)
	}
	p.peeked = nil
	c := command{kind: "for", name: t.word.plain()}
	if err := p.expect("in"); err != nil {
		return c, err
	}
	var words []word
	for {
		if t, err = p.peek(); err != nil || t.kind != "word" {
			break
		}
		words = append(words, t.word)
		p.peeked = nil
	}
	if err != nil {
		return c, err
	}
	body, err := p.body("do", "done")
	c.clauses = []clause{{words: words, body: body}}
	return c, err
}

func (p *parser) caseClause() (command, error) {
	if err := p.expect("case"); err != nil {
		return command{}, err
	}
	t, err := p.peek()
	if err != nil || t.kind != "word" {
		return command{}, p.unexpected(t, err)
	}
	p.peeked = nil
	c := command{kind: "case", words: []word{t.word}}
	if err := p.expect("in"); err != nil {
		return c, err
	}
	for {
		if err := p.skip("\n"); err != nil {
			return c, err
		}
		if t, err = p.peek(); err != nil || t.is("esac") {
			p.peeked = nil
			return c, err
		}
		arm, err := p.arm()
		if err != nil {
			return c, err
		}
		c.clauses = append(c.clauses, arm)
	}
}

// arm reads "a|b) list ;;".
func (p *parser) arm() (clause, error) {
	var arm clause
	if err := p.skip("("); err != nil {
		return arm, err
	}
	for {
		t, err := p.peek()
		if err != nil {
			return arm, err
		}
		p.peeked = nil
		switch t.kind {
		case "word":
			arm.words = append(arm.words, t.word)
			continue
		case "|":
			continue
		case ")":
		default:
			return arm, p.unexpected(t, nil)
		}
		if arm.body, err = p.list(); err != nil {
			return arm, err
		}
		return arm, p.skip(";;")
	}
}

func contains(all []string, s string) bool {
	return strings.Contains("\x00"+strings.Join(all, "\x00")+"\x00", "\x00"+s+"\x00")
}
