package discover

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// tomlValues reads the strings of a TOML file, and the text of its other scalars, by
// dotted key: a scalar is a list of one, and a table in an array or in a line has none.
// It knows as much of TOML as CRI-O's configuration has; the error names a line.
func tomlValues(text string) (map[string][]string, error) {
	s := &tomlScanner{rest: text}
	out := map[string][]string{}
	var table []string
	for s.blank(true); s.rest != ""; s.blank(true) {
		switch {
		case s.take("[["):
			if _, err := s.key(); err != nil || !s.take("]]") {
				return out, s.wrong("a table in an array")
			}
			table = []string{"[]"} // of no interest
		case s.take("["):
			key, err := s.key()
			if err != nil || !s.take("]") {
				return out, s.wrong("a table's name")
			}
			table = key
		default:
			key, err := s.key()
			if err != nil || !s.take("=") {
				return out, s.wrong("a key and its value")
			}
			s.blank(false)
			values, err := s.value(0)
			if err != nil {
				return out, err
			}
			out[strings.Join(append(append([]string{}, table...), key...), ".")] = values
		}
		if s.blank(false); s.rest != "" && s.rest[0] != '\n' {
			return out, s.wrong("the end of the line")
		}
	}
	return out, nil
}

type tomlScanner struct {
	rest string
	line int // lines that were read
}

func (s *tomlScanner) wrong(want string) error {
	return fmt.Errorf("line %d: expected %s", s.line+1, want)
}

// take removes a token and the blanks before it.
func (s *tomlScanner) take(token string) bool {
	s.blank(false)
	rest, ok := strings.CutPrefix(s.rest, token)
	if ok {
		s.skip(len(s.rest) - len(rest))
	}
	return ok
}

func (s *tomlScanner) skip(n int) {
	s.line += strings.Count(s.rest[:n], "\n")
	s.rest = s.rest[n:]
}

// blank removes blanks and comments, and the ends of lines.
func (s *tomlScanner) blank(lines bool) {
	for s.rest != "" {
		switch c := s.rest[0]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' && lines:
			s.skip(1)
		case c == '#':
			end := strings.IndexByte(s.rest, '\n')
			if end < 0 {
				end = len(s.rest)
			}
			s.skip(end)
		default:
			return
		}
	}
}

// key reads a dotted key.
func (s *tomlScanner) key() (parts []string, err error) {
	for {
		s.blank(false)
		part := ""
		if s.rest != "" && (s.rest[0] == '"' || s.rest[0] == '\'') {
			if part, err = s.quoted(); err != nil {
				return nil, err
			}
		} else {
			n := 0
			for n < len(s.rest) && (s.rest[n] == '_' || s.rest[n] == '-' || s.rest[n] >= '0' && s.rest[n] <= '9' || s.rest[n]|0x20 >= 'a' && s.rest[n]|0x20 <= 'z') {
				n++
			}
			if n == 0 {
				return nil, s.wrong("a key")
			}
			part = s.rest[:n]
			s.skip(n)
		}
		parts = append(parts, part)
		if !s.take(".") {
			return parts, nil
		}
	}
}

// errDepth is the error for lists in lists beyond any configuration.
var errDepth = errors.New("too many lists in lists")

// value reads a value at a depth of lists.
func (s *tomlScanner) value(depth int) ([]string, error) {
	if depth > 8 {
		return nil, errDepth
	}
	switch {
	case s.rest == "":
		return nil, s.wrong("a value")
	case s.rest[0] == '"' || s.rest[0] == '\'':
		text, err := s.quoted()
		return []string{text}, err
	case s.rest[0] == '{':
		return nil, s.wrong("a value that is no table in a line")
	case s.rest[0] != '[':
		n := strings.IndexAny(s.rest, ",]#\n")
		if n < 0 {
			n = len(s.rest)
		}
		text := strings.TrimSpace(s.rest[:n])
		s.skip(n)
		if text == "" {
			return nil, s.wrong("a value")
		}
		return []string{text}, nil
	}
	s.skip(1)
	all := []string{}
	for {
		if s.blank(true); s.take("]") {
			return all, nil
		}
		values, err := s.value(depth + 1)
		if err != nil {
			return nil, err
		}
		all = append(all, values...)
		if s.blank(true); !s.take(",") && !strings.HasPrefix(s.rest, "]") {
			return nil, s.wrong("the end of a list")
		}
	}
}

// quoted reads a string of any of the four kinds.
func (s *tomlScanner) quoted() (string, error) {
	for _, quote := range []string{`"""`, "'''", `"`, "'"} {
		if !strings.HasPrefix(s.rest, quote) {
			continue
		}
		end := len(quote)
		for ; ; end++ {
			switch {
			case end >= len(s.rest), len(quote) == 1 && s.rest[end] == '\n':
				return "", s.wrong("the end of a string")
			case s.rest[end] == '\\' && quote[0] == '"':
				end++
				continue
			}
			if strings.HasPrefix(s.rest[end:], quote) {
				break
			}
		}
		text := strings.TrimPrefix(s.rest[len(quote):end], "\n")
		if quote[0] == '"' {
			plain, err := strconv.Unquote(asGo(text))
			if err != nil {
				return "", s.wrong("escapes of a string")
			}
			text = plain
		}
		s.skip(end + len(quote))
		return text, nil
	}
	return "", s.wrong("a string")
}

// asGo converts the content of a TOML string to a Go string literal.
func asGo(text string) string {
	var b strings.Builder
	for escaped, i := false, 0; i < len(text); i++ {
		c := text[i]
		switch {
		case escaped:
		case c == '"':
			b.WriteByte('\\')
		case c == '\n':
			b.WriteByte('\\')
			c = 'n'
		}
		b.WriteByte(c)
		escaped = c == '\\' && !escaped
	}
	return `"` + b.String() + `"`
}
