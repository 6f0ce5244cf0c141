package grammar

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
)

// Translate converts a command line of a related tool to podrun's, or returns an error
// with a hint. Commands of podrun are not changed.
func Translate(root *cobra.Command, args []string) ([]string, error) {
	// Without a command, --verbose has no meaning.
	if len(args) == 1 && args[0] == "-v" {
		return []string{"--version"}, nil
	}
	at := WordsAt(root.PersistentFlags(), args)
	if len(at) == 0 {
		return args, nil
	}
	first, second := args[at[0]], ""
	if len(at) > 1 && at[1] == at[0]+1 {
		second = args[at[1]]
	}
	if slices.Contains(otherTools, first) {
		return nil, otherTool(root, first, args[at[0]+1:])
	}
	if belongsToGroup(root, first, second) {
		return Translate(root, slices.Delete(slices.Clone(args), at[0], at[0]+1))
	}
	for _, words := range []string{first + " " + second, first} {
		if words == first && IsCommandName(root, first) || words == first+" " {
			continue
		}
		rest := args[at[0]+1:]
		if words != first {
			rest = rest[1:]
		}
		if hint, ok := UseInstead[words]; ok && (words != first || !isHelpTopic(root, first, rest)) {
			return nil, &problem.Error{Kind: problem.Usage, Err: fmt.Errorf("podrun has no command %q", words), Hint: FillHint(hint, rest)}
		}
		if err := kubeApplyOfPod(words, rest); err != nil {
			return nil, err
		}
		if same, ok := SameAs[words]; ok {
			rest, formatted := dockerFlags(words, same[0], podrunFlags(words, rest))
			if formatted {
				same = same[:1]
			}
			converted := slices.Concat(args[:at[0]], same, rest)
			if same[0] == "run" {
				converted = ImageWithDash(root, converted, at[0])
			}
			return converted, nil
		}
	}
	if Named(root, first) == nil && !slices.Contains(cobraCommands, first) {
		return nil, unknownCommand(root, first) // otherwise cobra would report unknown flags first
	}
	switch first {
	case "get":
		rest, _ := dockerFlags(first, first, args[at[0]+1:])
		return slices.Concat(args[:at[0]+1], rest), nil
	case "exec":
		return withDash(root, args, at[0]), nil
	case "run":
		return ImageWithDash(root, args, at[0]), nil
	}
	return args, nil
}

// belongsToGroup reports whether a command line begins with the name of a group of commands of docker and podman, and
// with a command that podrun has, or has a hint for, without the group: pod logs, container rm.
func belongsToGroup(root *cobra.Command, group, command string) bool {
	words := group + " " + command
	if group != "pod" && group != "container" || SameAs[words] != nil || UseInstead[words] != "" {
		return false
	}
	return IsCommandName(root, command) || SameAs[command] != nil || UseInstead[command] != ""
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

// kubeApplyOfPod rejects podman kube apply POD, which sends a pod of podman to a cluster. The
// name of an existing file is not rejected.
func kubeApplyOfPod(words string, rest []string) error {
	names, file := operands(rest)
	if words != "kube apply" || file != "" || len(names) == 0 {
		return nil
	}
	if _, err := os.Stat(names[0]); err == nil {
		return nil
	}
	name := shellword.Quote(names[0])
	return problem.UsageError(fmt.Errorf("no file %q", names[0]), "run 'podrun kube apply FILE' to start the pods of a manifest on this host; to send a pod to a cluster, run 'podrun get "+name+" -o yaml | kubectl apply -f -'")
}

// podrunFlags converts the arguments after a command of sameAs: if a flag has another name in
// podrun, it renames the flag.
func podrunFlags(words string, rest []string) []string {
	names := flagNames[words]
	var out []string
	for i, arg := range rest {
		next := "END"
		if i+1 < len(rest) && !strings.HasPrefix(rest[i+1], "-") {
			next = "WORD"
			if strings.Trim(rest[i+1], "0123456789") == "" {
				next = "NUMBER"
			}
		}
		switch letters, short := strings.CutPrefix(arg, "-"); {
		case arg == "--":
			return append(out, rest[i:]...)
		case names[arg] != "":
			out = append(out, names[arg])
		case names[arg+" "+next] != "":
			out = append(out, names[arg+" "+next])
		case short && len(letters) > 1 && strings.Trim(letters, shorthands(names)) == "": // rm -af
			for _, letter := range letters {
				out = append(out, names["-"+string(letter)])
			}
		default:
			out = append(out, arg)
		}
	}
	return out
}

// shorthands returns the letters of the one-letter flags.
func shorthands(names map[string]string) string {
	letters := ""
	for name := range names {
		if len(name) == 2 {
			letters += name[1:]
		}
	}
	return letters
}

// withDash inserts -- between the pod and the command of exec, because docker exec works
// without it. All arguments after the command belong to the command.
func withDash(root *cobra.Command, args []string, exec int) []string {
	if slices.Contains(args, "--") {
		return args
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.AddFlagSet(root.PersistentFlags())
	flags.AddFlagSet(Named(root, "exec").Flags())
	if !knowsFlags(flags, args[exec+1:]) {
		return args
	}
	words := WordsAt(flags, args[exec+1:])
	if len(words) == 2 && IsPodType(args[exec+1+words[0]]) {
		after := exec + 2 + words[0]
		if more := WordsAt(flags, args[after:]); len(more) == 2 {
			return slices.Insert(slices.Clone(args), after+more[1], "--")
		}
		return args
	}
	if len(words) < 2 {
		return args
	}
	return slices.Insert(slices.Clone(args), exec+1+words[1], "--")
}

// ImageWithDash inserts -- between the image and the command of run IMAGE, because the arguments after an
// image belong to the container. Before the word run, it replaces -v with --verbose. Before the image, it
// replaces -h NAME with --hostname.
func ImageWithDash(root *cobra.Command, args []string, at int) []string {
	args = slices.Clone(args)
	for i, arg := range args[:at] {
		if arg == "-v" {
			args[i] = "--verbose"
		}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.AddFlagSet(Named(root, "run").Flags())
	flags.AddFlagSet(root.PersistentFlags())
	// cobra adds this flag only later.
	flags.BoolP("help", "h", false, "")
	words := WordsAt(flags, args[at+1:])
	// A host name and an image follow. Otherwise -h prints the help.
	if len(words) == 2 && words[0] > 0 && args[at+words[0]] == "-h" {
		args[at+words[0]] = "--hostname"
		words = WordsAt(flags, args[at+1:])
	}
	if len(words) == 0 {
		return args
	}
	image := at + 1 + words[0]
	isInput := func(arg string) bool {
		return arg == "--image" || strings.HasPrefix(arg, "--image=") || strings.HasPrefix(arg, "-f") || strings.HasPrefix(arg, "-k") || strings.HasPrefix(arg, "--filename") || strings.HasPrefix(arg, "--kustomize")
	}
	kubectl := func(arg string) bool { return arg == "--image" || strings.HasPrefix(arg, "--image=") }
	dash := slices.Index(args, "--")
	if slices.ContainsFunc(args[at+1:image], isInput) || slices.ContainsFunc(args[image:], kubectl) || dash >= 0 && dash <= image+1 || NamesManifest(args[image]) {
		return args
	}
	return slices.Insert(args, image+1, "--")
}

// knowsFlags reports whether every flag before the second word is in the set.
func knowsFlags(set *pflag.FlagSet, args []string) bool {
	until := len(args)
	if words := WordsAt(set, args); len(words) == 2 {
		until = words[1]
	}
	for _, arg := range args[:until] {
		letters, short := strings.CutPrefix(arg, "-")
		name, long := strings.CutPrefix(letters, "-")
		name, _, _ = strings.Cut(name, "=")
		if long && set.Lookup(name) == nil || short && !long && letters != "" && set.ShorthandLookup(letters[:1]) == nil {
			return false
		}
	}
	return true
}

// isHelpTopic reports whether the command line consists only of the name of a help topic.
func isHelpTopic(root *cobra.Command, word string, rest []string) bool {
	c := Named(root, word)
	return c != nil && IsTopic(c) && !slices.ContainsFunc(rest, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
}

// unknownCommand returns the error for a word that is not the name of a command.
func unknownCommand(root *cobra.Command, word string) error {
	err := &problem.Error{Kind: problem.Usage, Err: KnownCommand(root, []string{word}), Hint: "see 'podrun --help'"}
	if LooksLikeFile(word) {
		err.Hint = "use 'podrun apply " + shellword.Quote(word) + "', or 'podrun run " + shellword.Quote(word) + "' to wait until the pod ends"
	}
	return err
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
func Named(root *cobra.Command, name string) *cobra.Command {
	for _, c := range root.Commands() {
		if c.Name() == name || c.HasAlias(name) {
			return c
		}
	}
	return nil
}

// WordsAt returns the indexes of the first two arguments that are neither flags nor
// values of global flags. It returns nil if an unknown flag precedes the first, because
// that flag may take a value.
func WordsAt(global *pflag.FlagSet, args []string) []int {
	var out []int
	for i := 0; i < len(args) && len(out) < 2 && args[i] != "--"; i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			out = append(out, i)
			continue
		}
		var flag *pflag.Flag
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			if strings.Contains(name, "=") {
				continue
			}
			flag = global.Lookup(name)
		} else {
			flag = lastShorthand(global, arg[1:])
		}
		switch {
		case flag == nil && len(out) == 0:
			return nil
		case flag != nil && flag.NoOptDefVal == "":
			i++ // its value
		}
	}
	return out
}

// lastShorthand returns the last flag in an argument such as -x or -it, because only the last
// one can take the next argument as its value. It returns nil if a letter is unknown.
func lastShorthand(set *pflag.FlagSet, letters string) *pflag.Flag {
	for i := range letters {
		flag := set.ShorthandLookup(letters[i : i+1])
		switch {
		case flag == nil:
			return nil
		case i == len(letters)-1:
			return flag
		case flag.NoOptDefVal == "":
			return &pflag.Flag{NoOptDefVal: "attached"} // the value follows in this argument
		}
	}
	return nil
}

// ClosestName returns the name that the user probably meant, or "" unless there is exactly one
// candidate. Both words must have at least four letters and the same first letter. They must differ
// by one letter that is inserted, deleted or replaced, or by two letters that are swapped. There
// are two exceptions to the minimum length: words of three letters may differ by a swap, and a word
// of two letters may lack one letter of a name of three.
func ClosestName(typed string, names []string) string {
	found := ""
	for _, name := range names {
		lacksOne := len(typed) == 2 && len(name) == 3
		if min(len(typed), len(name)) < 3 && !lacksOne || typed[0] != name[0] || !isOneEdit(typed, name) {
			continue
		}
		if min(len(typed), len(name)) == 3 && !isSwap(typed, name) {
			continue
		}
		if found != "" {
			return ""
		}
		found = name
	}
	return found
}

// isOneEdit reports whether one insertion, deletion, replacement or swap of adjacent
// letters converts a to b.
func isOneEdit(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch {
	case len(b) == len(a)+1:
		return a[i:] == b[i+1:]
	case len(b) != len(a) || a == b:
		return false
	case a[i+1:] == b[i+1:]:
		return true
	}
	return i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:]
}

// isSwap reports whether two words of the same length have the same letters.
func isSwap(a, b string) bool {
	x, y := []byte(a), []byte(b)
	slices.Sort(x)
	slices.Sort(y)
	return string(x) == string(y)
}

// KnownCommand rejects an unknown word in the position of a command.
func KnownCommand(c *cobra.Command, given []string) error {
	if len(given) == 0 {
		return nil
	}
	var names []string
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			names = append(names, sub.Name())
		}
	}
	like := ClosestName(given[0], names)
	if like == "" && !c.HasParent() {
		like = ClosestName(given[0], slices.Collect(maps.Keys(SameAs)))
	}
	return &UnknownWord{Word: given[0], Path: c.CommandPath(), Like: like}
}
