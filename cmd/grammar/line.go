package grammar

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/internal/shellword"
)

// Line is the command line as the user typed it.
type Line struct {
	// Typed are the arguments after Translate has converted them to commands and flags of podrun.
	// DashAdded is set if Translate added the -- of exec.
	Typed     []string
	DashAdded bool
}

// WithWords returns the command line with other words in place of those from index i to j, in quotation marks.
func (a *Line) WithWords(i, j int, words ...string) string {
	line := slices.Replace(slices.Clone(a.Typed), i, j, words...)
	if n := len(line); n > 0 && line[n-1] == "--" { // added by imageWithDash
		line = line[:n-1]
	}
	return "'podrun " + shellword.Join(line) + "'"
}

// Without returns the words of the command line without a flag of one letter that takes a value, and this value.
func (a *Line) Without(letter string) (rest []string, value string) {
	return argumentsOf(nil).without(a.Typed, func(u flagUse) bool { return u.name == "-"+letter })
}

// FlagHint fills the words of words.txt in a hint about a flag that podrun has.
func (a *Line) FlagHint(c *cobra.Command, hint string, flag *pflag.Flag) string {
	args := argumentsOf(c)
	rest, value := args.without(a.Typed, func(u flagUse) bool { return u.flag == flag })
	return args.fillLine(c, hint, rest, value)
}

// ProcessesHint is the hint for the options of ps, which docker top passes to it.
func (a *Line) ProcessesHint() string {
	return argumentsOf(nil).fill(words()["top -e VALUE"].hint, a.Typed[1:], nil)
}

// withFlag returns the hint with another flag in place of one that the command does not have, or "" if the
// command line does not contain the flag in its long form.
func (a *Line) withFlag(name, other string) string {
	for i, word := range a.Typed {
		if value, ok := strings.CutPrefix(word, "--"+name); ok && (value == "" || value[0] == '=') {
			return "use " + a.WithWords(i, i+1, "--"+other+value)
		}
	}
	return ""
}

// WithSudo returns the command line with sudo. It adds -E if the environment contains settings
// of podrun.
func (a *Line) WithSudo() string {
	sudo := []string{"sudo"}
	if slices.ContainsFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PODRUN_") || strings.HasPrefix(v, "CONTAINER_RUNTIME_ENDPOINT=")
	}) {
		sudo = append(sudo, "-E")
	}
	return shellword.Join(slices.Concat(sudo, []string{"podrun"}, a.Typed))
}

// WithName returns the command line with another name in place of the pod's.
func (a *Line) WithName(name, other string) string {
	words := slices.Clone(a.Typed)
	for i, word := range words {
		if word == "--" {
			break
		}
		if word == name || strings.HasSuffix(word, "/"+name) {
			words[i] = strings.TrimSuffix(word, name) + other
			return "'podrun " + shellword.Join(words) + "'"
		}
	}
	return "run 'podrun get' to list the pods"
}
