package grammar

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
)

// Translate converts a command line with the rows of words.txt: the words of the command, then the flags from left to
// right. It returns an error with a hint if podrun refuses one of them. Words and flags of podrun are not changed.
func Translate(root *cobra.Command, args []string) ([]string, error) {
	// Without a command, --verbose has no meaning.
	if len(args) == 1 && args[0] == "-v" {
		return []string{"--version"}, nil
	}
	at := CommandAt(root.PersistentFlags(), args)
	if at < 0 {
		return args, nil
	}
	first := args[at]
	switch {
	case slices.Contains(otherTools, first):
		return nil, otherTool(root, first, args[at+1:])
	case belongsToGroup(root, args[at:]):
		return Translate(root, slices.Delete(slices.Clone(args), at, at+1))
	}
	typed, r := foreignCommand(root, args[at:])
	switch {
	case r == nil && slices.Contains(cobraCommands, first):
		return args, nil
	case r == nil && Named(root, first) == nil:
		return nil, unknownCommand(root, first) // otherwise cobra would report unknown flags first
	case r != nil:
		rest := args[at+1+strings.Count(typed, " "):]
		if r.hint != "" {
			return nil, problem.UsageError(fmt.Errorf("podrun has no command %q", typed), argumentsOf(nil).fill(r.hint, rest, nil))
		}
		args = slices.Concat(args[:at], r.podrun, rest)
	}
	c, a := commandOf(root, args[at:])
	if r != nil {
		a.typed = typed
	}
	switch c.CommandPath() {
	case "podrun exec":
		args = a.withDash(args, at)
	case "podrun run":
		args = a.imageWithDash(args, at)
	}
	return a.translateFlags(c, args)
}

// CommandAt returns the index of the command in a command line, or -1 if it has none.
func CommandAt(global *pflag.FlagSet, args []string) int {
	at := arguments{flags: []*pflag.FlagSet{global}, commands: []string{""}}.words(args, 1)
	if len(at) == 0 {
		return -1
	}
	return at[0]
}

// foreignCommand returns the row of the first words of a command line, and these words. It returns nil if they are a
// command of podrun, or the name of a help topic alone.
func foreignCommand(root *cobra.Command, args []string) (typed string, r *row) {
	if len(args) > 1 {
		typed = args[0] + " " + args[1]
		if r = words()[typed]; r != nil && !isFlag(args[1]) {
			return typed, r
		}
	}
	c := Named(root, args[0])
	alone := !slices.ContainsFunc(args[1:], func(arg string) bool { return !isFlag(arg) })
	if c != nil && (!IsTopic(c) || alone) {
		return "", nil
	}
	return args[0], words()[args[0]]
}

// commandOf returns podrun's command at the beginning of the arguments, and the reader of its arguments.
func commandOf(root *cobra.Command, args []string) (*cobra.Command, arguments) {
	c := root
	for _, i := range argumentsOf(root).words(args, 3) {
		sub := Named(c, args[i])
		if sub == nil {
			break
		}
		c = sub
	}
	return c, argumentsOf(c)
}

// translateFlags converts or refuses the flags of other tools. It stops at the first unknown flag, which cobra reports.
func (a arguments) translateFlags(c *cobra.Command, args []string) (out []string, err error) {
	for len(args) > 0 && args[0] != "--" {
		if !isFlag(args[0]) {
			out, args = append(out, args[0]), args[1:]
			continue
		}
		u := a.read(args)
		if formatted := a.format(u); formatted != nil {
			out, args = append(out, formatted...), args[u.args:]
			continue
		}
		switch {
		case u.flag == nil && u.row == nil:
			return append(out, args...), nil
		case u.row != nil && u.row.hint != "":
			return nil, a.refuse(c, u, u.row.hint, slices.Concat(out, args))
		case u.row != nil && len(u.row.podrun) == 0 && u.equal && !u.takesValue && u.value != "true":
			return nil, a.refuse(c, u, "podrun supports only the value true: omit the flag: 'CMD'", slices.Concat(out, args))
		}
		used, after := args[:u.args], args[u.args:]
		if u.rest != "" {
			used, after = []string{u.name}, slices.Concat([]string{u.rest}, after)
		}
		args = after
		if u.row == nil {
			out = append(out, used...)
			continue
		}
		var replaced []string
		for _, word := range u.row.podrun {
			replaced = append(replaced, strings.ReplaceAll(word, "VALUE", u.value))
		}
		if !joinSelector(out, replaced) {
			args = slices.Concat(replaced, args) // another row may convert it further
		}
	}
	return append(out, args...), nil
}

// joinSelector adds a selector that replaces a filter to one of the same flag, because podrun accepts each flag once.
func joinSelector(out, replaced []string) bool {
	if len(replaced) != 1 {
		return false
	}
	flag, value, _ := strings.Cut(replaced[0], "=")
	i := slices.IndexFunc(out, func(arg string) bool { return strings.HasPrefix(arg, flag+"=") })
	if !strings.HasSuffix(flag, "selector") || i < 0 {
		return false
	}
	out[i] += "," + value
	return true
}

// refuse returns the error for a flag of another tool. The command line in its hint has none of the flags with the same
// row, because users often type several of them.
func (a arguments) refuse(c *cobra.Command, u flagUse, hint string, args []string) error {
	rest, _ := a.without(args, func(other flagUse) bool { return other.row == u.row })
	name := u.name
	if u.equal && !u.takesValue {
		name += "=" + u.value
	}
	return problem.UsageError(fmt.Errorf("%s has no flag %s", c.CommandPath(), name), a.fillLine(c, hint, rest, u.value))
}

// otherTools are the names of tools that users type before their commands.
var otherTools = []string{"crictl", "docker", "docker-compose", "kubectl", "nerdctl", "oc", "podman", "systemctl"}

// otherTool returns the error for the name of another tool. The hint is the rest of the command line. If
// podrun does not have that command, the hint is that for the command.
func otherTool(root *cobra.Command, tool string, rest []string) error {
	hint := "omit " + tool + ": 'podrun --help' lists the commands of podrun"
	if len(rest) > 0 {
		hint = "omit " + tool + ": 'podrun " + shellword.Join(rest) + "'"
	}
	if tool == "docker-compose" {
		rest = append([]string{"compose"}, rest...)
	}
	if _, err := Translate(root, rest); err != nil {
		if e, ok := errors.AsType[*problem.Error](err); ok && e.Hint != "" {
			hint = e.Hint
		}
	}
	return problem.UsageError(fmt.Errorf("podrun has no command %q", tool), hint)
}

// belongsToGroup reports whether a command line begins with the name of a group of commands of docker and podman, and
// with a command that podrun has, or has a row for, without the group: pod logs, container rm.
func belongsToGroup(root *cobra.Command, args []string) bool {
	if args[0] != "pod" && args[0] != "container" || len(args) < 2 || IsForeign(args[0]+" "+args[1]) {
		return false
	}
	return IsCommandName(root, args[1]) || IsForeign(args[1])
}

// unknownCommand returns the error for a word that is not the name of a command.
func unknownCommand(root *cobra.Command, word string) error {
	hint := "see 'podrun --help'"
	if LooksLikeFile(word) {
		hint = "use 'podrun apply " + shellword.Quote(word) + "', or 'podrun run " + shellword.Quote(word) + "' to wait until the pod ends"
	}
	return problem.UsageError(KnownCommand(root, []string{word}), hint)
}

// KnownCommand rejects an unknown word in the position of a command.
func KnownCommand(c *cobra.Command, given []string) error {
	if len(given) == 0 {
		return nil
	}
	var names, foreign []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	for key, r := range words() {
		if !strings.ContainsAny(key, " -/{") && r.hint == "" {
			foreign = append(foreign, key)
		}
	}
	like := ClosestName(given[0], names)
	if like == "" && !c.HasParent() {
		like = ClosestName(given[0], foreign)
	}
	return &UnknownWord{Word: given[0], Path: c.CommandPath(), Like: like}
}

// cobraCommands are the commands that cobra adds when it executes one.
var cobraCommands = []string{"help", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// IsCommandName reports whether podrun has a command of this name; help topics are not
// commands.
func IsCommandName(root *cobra.Command, name string) bool {
	c := Named(root, name)
	return c != nil && !IsTopic(c)
}

// Named returns the command or help topic with this name, or nil.
func Named(parent *cobra.Command, name string) *cobra.Command {
	for _, c := range parent.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}
