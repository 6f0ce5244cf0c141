// Package workflowtest processes the output of a step like the runner of GitHub. It is for
// tests.
package workflowtest

import (
	"regexp"
	"strings"
	"unicode"
)

// lineEnds are the line ends of .NET's StreamReader.ReadLine.
var lineEnds = regexp.MustCompile("\r\n|\r|\n")

// old matches a command in the runner's older syntax, anywhere in a line.
var old = regexp.MustCompile(`##\[([^\] ]+)[^\]]*\](.*)`)

// Run returns the workflow commands that the runner executes. It also returns the other lines,
// which the runner shows. It works like ActionCommand.cs and ActionCommandManager.cs of
// actions/runner, but accepts every command name. Neither list contains the commands that stop and
// resume the processing.
func Run(output string) (commands, shown []string) {
	token := ""
	for _, line := range lineEnds.Split(strings.TrimSuffix(output, "\n"), -1) {
		name, data := parse(line)
		switch {
		case name == "":
			shown = append(shown, line)
		case token != "" && strings.EqualFold(name, token):
			token = ""
		case token != "":
			shown = append(shown, line)
		case strings.EqualFold(name, "stop-commands"):
			token = data
		default:
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands, shown
}

// parse returns the name and the data of a command. The name is "" if the line contains no command.
func parse(line string) (name, data string) {
	if rest, ok := strings.CutPrefix(strings.TrimLeftFunc(line, ignored), "::"); ok {
		if info, data, ok := strings.Cut(rest, "::"); ok && info != "" {
			name, _, _ := strings.Cut(info, " ")
			return name, data
		}
	}
	if m := old.FindStringSubmatch(line); m != nil {
		return m[1], m[2]
	}
	return "", ""
}

// ignored reports whether the runner ignores r at the beginning of a line.
func ignored(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }
