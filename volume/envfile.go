package volume

import (
	"fmt"
	"strings"
)

// envValue returns the value of a variable in an env file (KEP-3721). The lines of the file have
// the form NAME='value'. A value may contain several lines, but no escapes. envValue ignores blank
// lines, and lines that begin with #. NAME= followed by blanks sets an empty value, which counts as
// not set. envValue stops at the first match.
func envValue(text, key string) (string, error) {
	lines := 0
	for text != "" {
		lines++
		line, rest, _ := strings.Cut(text, "\n")
		line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), " \t")
		if line == "" || line[0] == '#' {
			text = rest
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		switch {
		case !ok:
			return "", fmt.Errorf("line %d: no '='", lines)
		case name == "":
			return "", fmt.Errorf("line %d: the variable has no name", lines)
		case strings.TrimRight(name, " \t") != name:
			return "", fmt.Errorf("line %d: white space before '='", lines)
		}
		if strings.TrimLeft(value, " \t") != value {
			if name == key {
				return "", nil
			}
			text = rest
			continue
		}
		_, quoted, _ := strings.Cut(text, "=")
		if !strings.HasPrefix(quoted, "'") {
			return "", fmt.Errorf("line %d: the value is not in single quotes", lines)
		}
		value, after, closed := strings.Cut(quoted[1:], "'")
		if !closed {
			return "", fmt.Errorf("line %d: the single quote is not closed", lines)
		}
		after, text, _ = strings.Cut(after, "\n")
		if after = strings.Trim(after, " \t\r"); after != "" && after[0] != '#' {
			return "", fmt.Errorf("line %d: unexpected text after the closing quote", lines)
		}
		if name == key {
			return value, nil
		}
		lines += strings.Count(value, "\n")
	}
	return "", nil
}
