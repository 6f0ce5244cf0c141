package ash

import (
	"errors"
	"fmt"
	"strings"
)

// token is an operator (its kind is its text), "word" or "eof".
type token struct {
	kind string
	word word
	fd   int // of a redirection
}

func (t token) redirects() bool { return t.kind != "" && (t.kind[0] == '<' || t.kind[0] == '>') }

func (t token) is(reserved string) bool { return t.kind == "word" && t.word.reserved() == reserved }

// ends tells whether the token closes a list.
func (t token) ends() bool {
	return t.kind == "word" && contains([]string{"then", "elif", "else", "fi", "do", "done", "esac", "}"}, t.word.reserved())
}

// word is what expands to fields: its parts follow one another.
type word []part

type part struct {
	kind   byte   // 'l' literal, 'p' parameter, 'c' command substitution, 'a' arithmetic
	text   string // the literal, or the parameter's name
	op     string // of ${name op arg}; "len" for ${#name}
	arg    word
	list   *list
	quoted bool
}

// reserved gives the text of a word that has nothing quoted or expanded.
func (w word) reserved() string {
	if len(w) != 1 || w[0].kind != 'l' || w[0].quoted {
		return ""
	}
	return w[0].text
}

// plain gives the word's literal text, for names and messages.
func (w word) plain() string {
	var b strings.Builder
	for _, p := range w {
		if p.kind == 'l' {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

var operators = []string{"&&", "||", ";;", ">>", ">&", "<&", "\n", ";", "&", "|", "(", ")", "<", ">"}

func (p *parser) peek() (token, error) {
	if p.peeked == nil {
		t, err := p.lex()
		if err != nil {
			return t, err
		}
		p.peeked = &t
	}
	return *p.peeked, nil
}

func (p *parser) lex() (token, error) {
	p.blanks()
	if p.pos >= len(p.src) {
		return token{kind: "eof"}, nil
	}
	fd := -1
	if c := p.src[p.pos]; c >= '0' && c <= '9' && p.pos+1 < len(p.src) && strings.ContainsRune("<>", rune(p.src[p.pos+1])) {
		fd = int(c - '0')
		p.pos++
	}
	for _, op := range operators {
		if !strings.HasPrefix(p.src[p.pos:], op) {
			continue
		}
		p.pos += len(op)
		if fd < 0 && op[0] == '>' {
			fd = 1
		}
		if op == "<" && strings.HasPrefix(p.src[p.pos:], "<") {
			return token{}, errors.New("syntax error: here-documents are not in this shell")
		}
		return token{kind: op, fd: max(fd, 0)}, nil
	}
	w, err := p.word("")
	return token{kind: "word", word: w}, err
}

// blanks skips spaces, line continuations and comments.
func (p *parser) blanks() {
	for p.pos < len(p.src) {
		switch rest := p.src[p.pos:]; {
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			p.pos++
		case strings.HasPrefix(rest, "\\\n"):
			p.pos += 2
		case rest[0] == '#':
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				p.pos += end
			} else {
				p.pos = len(p.src)
			}
		default:
			return
		}
	}
}

// word reads up to a blank or an operator, or, inside ${…}, up to the stop
// character, which it leaves.
func (p *parser) word(stop string) (word, error) {
	var w word
	ends := " \t\r\n;&|()<>"
	if stop != "" {
		ends = stop
	}
	for p.pos < len(p.src) && !strings.ContainsRune(ends, rune(p.src[p.pos])) {
		var err error
		switch p.src[p.pos] {
		case '\'':
			err = p.singleQuoted(&w)
		case '"':
			err = p.doubleQuoted(&w)
		case '$', '`':
			err = p.dollar(&w, false)
		case '\\':
			p.pos++
			if p.pos < len(p.src) {
				if p.src[p.pos] != '\n' {
					w.literal(p.src[p.pos:p.pos+1], true)
				}
				p.pos++
			}
		default:
			w.literal(p.src[p.pos:p.pos+1], false)
			p.pos++
		}
		if err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *word) literal(s string, quoted bool) {
	if n := len(*w); n > 0 && (*w)[n-1].kind == 'l' && (*w)[n-1].quoted == quoted {
		(*w)[n-1].text += s
		return
	}
	*w = append(*w, part{kind: 'l', text: s, quoted: quoted})
}

func (p *parser) singleQuoted(w *word) error {
	end := strings.IndexByte(p.src[p.pos+1:], '\'')
	if end < 0 {
		return errors.New("syntax error: unterminated quoted string")
	}
	w.literal(p.src[p.pos+1:p.pos+1+end], true)
	p.pos += end + 2
	return nil
}

func (p *parser) doubleQuoted(w *word) error {
	p.pos++
	w.literal("", true)
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == '"':
			p.pos++
			return nil
		case c == '\\' && p.pos+1 < len(p.src) && strings.ContainsRune("$`\"\\\n", rune(p.src[p.pos+1])):
			if p.src[p.pos+1] != '\n' {
				w.literal(p.src[p.pos+1:p.pos+2], true)
			}
			p.pos += 2
		case c == '$' || c == '`':
			if err := p.dollar(w, true); err != nil {
				return err
			}
		default:
			w.literal(string(c), true)
			p.pos++
		}
	}
	return errors.New("syntax error: unterminated quoted string")
}

// dollar reads an expansion, or a $ that is none.
func (p *parser) dollar(w *word, quoted bool) error {
	rest := p.src[p.pos:]
	switch {
	case rest[0] == '`':
		end := strings.IndexByte(rest[1:], '`')
		if end < 0 {
			return errors.New("syntax error: unterminated `")
		}
		l, err := parse(rest[1 : 1+end])
		*w = append(*w, part{kind: 'c', list: l, quoted: quoted})
		p.pos += end + 2
		return err
	case strings.HasPrefix(rest, "$(("):
		end := strings.Index(rest, "))")
		if end < 0 {
			return errors.New("syntax error: missing '))'")
		}
		inner := &parser{src: rest[3:end]}
		arg, err := inner.word("\x00")
		*w = append(*w, part{kind: 'a', arg: arg, quoted: quoted})
		p.pos += end + 2
		return err
	case strings.HasPrefix(rest, "$("):
		inner := &parser{src: p.src, pos: p.pos + 2}
		l, err := inner.list()
		if err == nil {
			err = inner.expect(")")
		}
		*w = append(*w, part{kind: 'c', list: l, quoted: quoted})
		p.pos = inner.pos
		return err
	case strings.HasPrefix(rest, "${"):
		return p.braced(w, quoted)
	}
	n := nameLength(rest[1:])
	if n == 0 {
		w.literal("$", quoted)
		p.pos++
		return nil
	}
	*w = append(*w, part{kind: 'p', text: rest[1 : 1+n], quoted: quoted})
	p.pos += 1 + n
	return nil
}

// braced reads ${name}, ${#name} and ${name op word}.
func (p *parser) braced(w *word, quoted bool) error {
	p.pos += 2
	pt := part{kind: 'p', quoted: quoted}
	if p.pos+1 < len(p.src) && p.src[p.pos] == '#' && p.src[p.pos+1] != '}' {
		pt.op = "len"
		p.pos++
	}
	n := nameLength(p.src[p.pos:])
	pt.text = p.src[p.pos : p.pos+n]
	p.pos += n
	for _, op := range []string{":-", ":=", ":+", "##", "%%", "-", "=", "+", "#", "%"} {
		if strings.HasPrefix(p.src[p.pos:], op) {
			pt.op = op
			p.pos += len(op)
			break
		}
	}
	arg, err := p.word("}")
	if err != nil {
		return err
	}
	if n == 0 || p.pos >= len(p.src) || pt.op == "" && len(arg) > 0 {
		return fmt.Errorf("syntax error: bad substitution")
	}
	pt.arg = arg
	p.pos++
	*w = append(*w, pt)
	return nil
}

// nameLength tells how much of s is a parameter's name: $?, $1 or $name.
func nameLength(s string) int {
	if s == "" {
		return 0
	}
	if strings.ContainsRune("?$!#@*-0123456789", rune(s[0])) {
		return 1
	}
	n := 0
	for n < len(s) && (s[n] == '_' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= 'A' && s[n] <= 'Z' || n > 0 && s[n] >= '0' && s[n] <= '9') {
		n++
	}
	return n
}
