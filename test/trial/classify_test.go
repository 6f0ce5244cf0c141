package trial

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// class rates the result of a command from the user's point of view.
type class string

const (
	works class = "works" // the command did what was expected
	// podrun refused the command, and its message contains the command to type
	helpful class = "helpful"
	// podrun refused the command without help
	bare class = "bare"
	// the result is wrong, or the message is misleading
	confusing class = "confusing"
)

// classes maps the names that the first trial used for classes.
var classes = map[string]class{
	"works as expected": works, "helpful refusal": helpful, "bare refusal": bare, "confusing or wrong": confusing,
	"works": works, "helpful": helpful, "bare": bare, "confusing": confusing,
}

// mark is the class that a reader chose for the output of a command.
type mark struct {
	class  class
	output string // fingerprint of the output that the reader rated
}

// judge returns the class of a command's result: the mark, if a reader marked this output;
// otherwise the class that the exit code and the messages imply; or else the class of the first
// trial, which only a reader can change.
func judge(c command, r result, m mark) class {
	errors := messages(r.output)
	switch {
	case m.class != "" && (m.output == "*" || m.output == fingerprint(r)):
		return m.class
	case strings.HasPrefix(c.id, "t"):
		return c.class
	case len(errors) == 0 && r.code == 0 && c.code != 0:
		return works
	case len(errors) > 0 && refused(r, errors) && anyBare(errors) && (c.class != helpful || unknown.MatchString(errors[0])):
		return bare
	case len(errors) > 0 && refused(r, errors) && c.class == bare:
		return helpful
	}
	return c.class
}

// unknown matches messages that offer no help, even if a reader found help in an earlier version
// of them.
var unknown = regexp.MustCompile(`^podrun: (unknown (shorthand )?flag|"[^"]*" is not a command)`)

// refused reports whether podrun refused to execute the command. This is the case if the exit code
// is one for usage, definitions or admission, or if a message is about the command line itself.
func refused(r result, errors []string) bool {
	return r.code == 120 || r.code == 121 || r.code == 122 || strings.Contains(strings.Join(errors, "\n"), "unknown ")
}

// message is an error that podrun printed, with its hint.
var message = regexp.MustCompile(`(?m)^podrun: .*(?:\n(?:hint|      ).*)*`)

func messages(output string) []string { return message.FindAllString(output, -1) }

// pointsAtHelp matches a hint that only refers to the help, and therefore fits every command.
var pointsAtHelp = regexp.MustCompile(`hint: see 'podrun[a-z -]* --help'\s*$`)

// anyBare reports whether one of the messages offers no help: it contains neither a remedy in parentheses nor
// a specific hint.
func anyBare(errors []string) bool {
	for _, e := range errors {
		own := pointsAtHelp.ReplaceAllString(e, "")
		if !strings.Contains(own, "hint: ") && !strings.HasSuffix(strings.TrimSpace(own), ")") {
			return true
		}
	}
	return false
}

var (
	identifiers = regexp.MustCompile(`\b[0-9a-f]{8,64}\b`)
	numbers     = regexp.MustCompile(`[0-9]+`)
	// suffixes matches the suffixes of metadata.generateName, whose alphabet has no vowels.
	suffixes = regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`)
)

// fingerprint returns a fingerprint of a command's exit code and messages. It ignores the parts
// that differ between two runs.
func fingerprint(r result) string {
	text := strings.Join(messages(r.output), " ")
	return strconv.Itoa(r.code) + " " + flat(numbers.ReplaceAllString(suffixes.ReplaceAllString(identifiers.ReplaceAllString(text, "ID"), "-ID"), "N"), 160)
}

// flat returns a text on one line, and at most n bytes of it.
func flat(text string, n int) string {
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(n, len(text))]
}

// readCommands reads a file with the columns ID, audience, command, exit code and class.
func readCommands(path string) (out []command, err error) {
	err = readTable(path, 5, func(f []string) error {
		code, err := strconv.Atoi(f[3])
		if err != nil {
			// No exit code was recorded, because the command was typed into a terminal.
			code = -1
		}
		c, ok := classes[f[4]]
		if !ok {
			return fmt.Errorf("no such class: %q", f[4])
		}
		out = append(out, command{id: f[0], audience: f[1], line: f[2], code: code, class: c})
		return nil
	})
	return out, err
}

// readMarks reads a file with the columns ID, class and fingerprint. The fingerprint * matches
// any output.
func readMarks(path string) (map[string]mark, error) {
	out := map[string]mark{}
	return out, readTable(path, 3, func(f []string) error {
		c, ok := classes[f[1]]
		if !ok {
			return fmt.Errorf("no such class: %q", f[1])
		}
		out[f[0]] = mark{c, f[2]}
		return nil
	})
}

// readTable reads a file whose fields are separated by tabs. It calls row for each line except the first
// one.
func readTable(path string, fields int, row func([]string) error) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for i, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		f := strings.Split(line, "\t")
		switch {
		case i == 0:
			continue
		case len(f) < fields:
			return fmt.Errorf("%s:%d: %d fields, want %d", path, i+1, len(f), fields)
		}
		if err := row(f); err != nil {
			return fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	return nil
}

func TestJudge(t *testing.T) {
	const hint = "podrun: unknown flag: --x\nhint: see 'podrun get --help'\n"
	for name, tc := range map[string]struct {
		first  class
		code   int
		r      result
		marked mark
		want   class
	}{
		"works as before":              {works, 0, result{0, "NAME\n"}, mark{}, works},
		"worked and is refused":        {works, 0, result{120, hint}, mark{}, bare},
		"refused and works":            {bare, 120, result{0, "ok\n"}, mark{}, works},
		"refused without help":         {bare, 120, result{120, hint}, mark{}, bare},
		"refused with a hint":          {bare, 120, result{120, "podrun: no flag -x\nhint: use -o name\n"}, mark{}, helpful},
		"refused with a remedy":        {bare, 121, result{121, "podrun: a.yaml: no such file (check the path)\n"}, mark{}, helpful},
		"help that is no hint":         {helpful, 121, result{121, "podrun: a.yaml: kind: must be Pod\n"}, mark{}, helpful},
		"helpful before":               {helpful, 120, result{120, hint}, mark{}, bare},
		"confusing until it is marked": {confusing, 0, result{0, "x\n"}, mark{}, confusing},
		"marked":                       {confusing, 0, result{0, "x\n"}, mark{works, "0 "}, works},
		"marked with another output":   {confusing, 1, result{1, "podrun: y\n"}, mark{works, "1 podrun: x"}, confusing},
		"any output is marked":         {confusing, 0, result{0, "podrun: y\n"}, mark{works, "*"}, works},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(command{id: "1", code: tc.code, class: tc.first}, tc.r, tc.marked); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}
