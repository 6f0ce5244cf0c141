// Package weigh counts the nodes of a document before it is parsed. A few bytes of YAML can produce several
// nodes of 100 to 200 bytes: 10 MB of [1,1,… required 2 GB of memory.
package weigh

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// JSON returns the number of values in a JSON text, including keys, and their maximum
// depth. It never underestimates the number.
func JSON(text []byte) (values, depth int) {
	values = 1
	level := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			level++
			depth = max(depth, level)
			values += 2
		case ']', '}':
			level--
		case ',', ':':
			values++
		}
	}
	return values, depth
}

// YAML returns an upper bound of the number of nodes in a YAML document. When it exceeds
// most, it stops counting. For nearly all documents, it suffices to count the characters that
// may begin a node. YAML scans only documents with many of these characters.
func YAML(text []byte, most int) int {
	marks := 1
	for i, c := range text {
		switch c {
		case '[', '{', ',', ':':
			marks++
		case '-', '?':
			if i+1 == len(text) || isBlank(text[i+1]) || breakAt(text, i+1) > 0 {
				marks++
			}
		}
	}
	// {a} has three nodes for one mark.
	if n := 3 * marks; n <= most {
		return n
	}
	s := scanner{text: text, most: most, indents: []int{-1}}
	for s.next() && s.nodes <= most {
	}
	return s.nodes
}

// scanner finds the tokens of a YAML document as the scanners of the libraries do (libyaml's
// scanner.c). It does only what is required to distinguish text from structure. If the text is
// not valid YAML, the libraries stop with an error, so the count after that point does not
// matter.
type scanner struct {
	text []byte
	pos  int
	most int

	nodes int
	flow  []byte // the open brackets and braces
	// the columns of the open block collections; the first is -1
	indents []int

	lineStart         int
	columnPos, column int // a position on this line, and its column in characters
	// the column of a possible key before ":"; -1 if there is none
	keyColumn int
	decorated bool
}

// at returns the byte at an offset from the position, or 0 after the end of the text.
func (s *scanner) at(offset int) byte {
	if i := s.pos + offset; i < len(s.text) {
		return s.text[i]
	}
	return 0
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// breakAt returns the length of the line break at i; 0 if there is none. Line breaks are \n, \r,
// and the three Unicode line breaks that YAML 1.1 defines.
func breakAt(text []byte, i int) int {
	switch {
	case i >= len(text):
		return 0
	case text[i] == '\n', text[i] == '\r':
		return 1
	case bytes.HasPrefix(text[i:], []byte("\u0085")):
		return 2
	case bytes.HasPrefix(text[i:], []byte("\u2028")), bytes.HasPrefix(text[i:], []byte("\u2029")):
		return 3
	}
	return 0
}

// blankAt reports whether a token ends before an offset, because white space, a line break or
// the end of the text follows.
func (s *scanner) blankAt(offset int) bool {
	i := s.pos + offset
	return i >= len(s.text) || isBlank(s.text[i]) || breakAt(s.text, i) > 0
}

// newLine moves the position past a line break of n bytes.
func (s *scanner) newLine(n int) {
	s.pos += n
	s.lineStart = s.pos
	s.columnPos = s.pos
	s.column = 0
}

func (s *scanner) currentColumn() int {
	s.column += utf8.RuneCount(s.text[s.columnPos:s.pos])
	s.columnPos = s.pos
	return s.column
}

func (s *scanner) indent() int { return s.indents[len(s.indents)-1] }

// roll opens a block collection at a column, unless one is already open there.
func (s *scanner) roll(column int) {
	s.nodes++
	if len(s.flow) == 0 && column > s.indent() {
		s.indents = append(s.indents, column)
		s.nodes++
	}
}

// skipToToken skips white space, comments and line breaks.
func (s *scanner) skipToToken() {
	for s.pos < len(s.text) {
		switch n := breakAt(s.text, s.pos); {
		case n > 0:
			s.newLine(n)
			s.keyColumn = -1
			s.decorated = false
		case isBlank(s.text[s.pos]):
			s.pos++
		case s.text[s.pos] == '#':
			s.skipLine()
		case s.pos == s.lineStart && bytes.HasPrefix(s.text[s.pos:], []byte("\ufeff")):
			s.pos += 3
		default:
			return
		}
	}
}

func (s *scanner) skipLine() {
	for s.pos < len(s.text) && breakAt(s.text, s.pos) == 0 {
		s.pos++
	}
}

// next processes one token. At the end of the text, it returns false.
func (s *scanner) next() bool {
	s.skipToToken()
	if s.pos >= len(s.text) {
		return false
	}
	column := 0
	if len(s.flow) == 0 {
		column = s.currentColumn()
		for s.indent() > column {
			s.indents = s.indents[:len(s.indents)-1]
		}
	}
	c := s.text[s.pos]
	switch {
	case s.marker() && c == '.':
		return false
	case s.marker():
		// A document without content is a null.
		s.nodes++
		s.pos += 3
		s.indents = s.indents[:1]
		s.keyColumn = -1
		return true
	case c == '%' && s.pos == s.lineStart:
		s.skipLine()
		return true
	case c == '-' && s.blankAt(1), c == '?' && (len(s.flow) > 0 || s.blankAt(1)):
		s.roll(column)
		if c == '?' {
			// The token ends a key without a value: the null counts as a node.
			s.nodes++
		}
		s.pos = s.pos + 1
		s.keyColumn = -1
		return true
	case c == ':' && (len(s.flow) > 0 || s.blankAt(1)):
		if s.keyColumn >= 0 {
			column = s.keyColumn
		} else {
			// The token begins a value without a key: the null counts as a node.
			s.nodes++
		}
		s.roll(column)
		s.pos = s.pos + 1
		s.keyColumn = -1
		s.decorated = false
		return true
	case (c == '|' || c == '>') && len(s.flow) == 0:
		s.nodes++
		return s.blockScalar()
	}
	s.keyStart(column, c)
	s.content(c)
	return true
}

// marker reports whether a marker of a document, "---" or "...", is at the position.
func (s *scanner) marker() bool {
	rest := s.text[s.pos:]
	return s.pos == s.lineStart && s.blankAt(3) &&
		(bytes.HasPrefix(rest, []byte("---")) || bytes.HasPrefix(rest, []byte("...")))
}

// keyStart records the position at which a key begins. If the key has a tag or an anchor, it
// begins there.
func (s *scanner) keyStart(column int, c byte) {
	if len(s.flow) > 0 || c == ']' || c == '}' {
		return
	}
	if !s.decorated {
		s.keyColumn = column
	}
	s.decorated = c == '&' || c == '!'
}

// content processes a scalar, an alias, a tag, a bracket or a comma.
func (s *scanner) content(c byte) {
	switch c {
	case '[', '{':
		s.nodes++
		s.flow = append(s.flow, c)
		s.pos++
	case ']', '}':
		if len(s.flow) > 0 {
			s.flow = s.flow[:len(s.flow)-1]
		}
		// {a} ends with a missing value.
		s.nodes++
		s.pos++
	case ',':
		s.nodes++
		s.pos++
	// A tag may contain all of the other indicators.
	case '!':
		s.nodes++
		for !s.blankAt(0) {
			s.pos++
		}
	case '&', '*':
		s.nodes++
		for s.pos++; isNameByte(s.at(0)); s.pos++ {
		}
	case '"', '\'':
		s.nodes++
		s.quoted(c)
	default:
		s.nodes++
		s.plain()
	}
}

// isNameByte reports whether a byte can be part of an anchor's name.
func isNameByte(c byte) bool {
	return c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// quoted skips a quoted scalar.
func (s *scanner) quoted(quote byte) {
	for s.pos++; s.pos < len(s.text); {
		if n := breakAt(s.text, s.pos); n > 0 {
			s.newLine(n)
			continue
		}
		switch {
		case s.at(0) == '\\' && quote == '"':
			// The next character does not end the scalar. If it is a line break, it still counts.
			s.pos++
			if breakAt(s.text, s.pos) == 0 {
				s.pos++
			}
		case s.at(0) == quote && quote == '\'' && s.at(1) == quote:
			s.pos += 2
		case s.at(0) == quote:
			s.pos++
			return
		default:
			s.pos++
		}
	}
}

// plain skips an unquoted scalar. It may have several lines.
func (s *scanner) plain() {
	for begin := s.pos; ; {
		run := s.pos
		for !s.blankAt(0) && (s.pos == begin || !s.endsPlain()) {
			s.pos++
		}
		if s.pos == run || !s.blankAt(0) {
			return
		}
		broken := false
		for s.pos < len(s.text) && s.blankAt(0) {
			if n := breakAt(s.text, s.pos); n > 0 {
				s.newLine(n)
				broken = true
			} else {
				s.pos++
			}
		}
		if s.pos >= len(s.text) || s.at(0) == '#' || s.marker() || broken && len(s.flow) == 0 && s.currentColumn() <= s.indent() {
			return
		}
	}
}

// endsPlain reports whether a plain scalar ends before the current character.
func (s *scanner) endsPlain() bool {
	return s.at(0) == ':' && s.blankAt(1) || len(s.flow) > 0 && strings.IndexByte(",?[]{}", s.at(0)) >= 0
}

// blockScalar skips the text after | or >. The text ends before the first line that is indented
// less than the first line of the text. blockScalar returns false if the header is not valid, or
// if the text extends to the end of the document.
func (s *scanner) blockScalar() bool {
	given := 0
	for s.pos++; !s.blankAt(0) && s.at(0) != '#'; s.pos++ {
		if c := s.at(0); c >= '1' && c <= '9' {
			given = int(c - '0')
		} else if c != '+' && c != '-' {
			return false
		}
	}
	s.skipLine()
	s.newLine(breakAt(s.text, s.pos))
	indent := s.contentIndent()
	if given > 0 {
		indent = max(s.indent(), 0) + given
	}
	for s.pos < len(s.text) {
		begin := s.pos
		for s.at(0) == ' ' && s.pos-begin < indent {
			s.pos++
		}
		if s.pos-begin < indent && breakAt(s.text, s.pos) == 0 {
			s.keyColumn = -1
			s.decorated = false
			return true
		}
		s.skipLine()
		s.newLine(breakAt(s.text, s.pos))
	}
	return false
}

// contentIndent returns the indentation of the lines that follow. It is that of the first line
// that is not empty. If an empty line before it is indented more, it is that of the empty line.
func (s *scanner) contentIndent() int {
	most := max(s.indent()+1, 1)
	for i := s.pos; ; {
		begin := i
		for i < len(s.text) && s.text[i] == ' ' {
			i++
		}
		most = max(most, i-begin)
		n := breakAt(s.text, i)
		if n == 0 {
			return most
		}
		i += n
	}
}
