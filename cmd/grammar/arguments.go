package grammar

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// arguments reads the arguments of a command line. It knows which flags take a value: those of podrun's command, and
// those of words.txt.
type arguments struct {
	flags    []*pflag.FlagSet
	commands []string // the keys of words.txt for flags begin with one of these: the command, or "" for all commands
	typed    string   // the name of the command in another tool, if podrun's differs; its rows precede podrun's flags
}

// argumentsOf returns the reader of the arguments of a command, which may be nil.
func argumentsOf(c *cobra.Command) arguments {
	if c == nil {
		return arguments{commands: []string{""}}
	}
	c.InitDefaultHelpFlag()
	path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
	return arguments{flags: []*pflag.FlagSet{c.Flags(), c.Root().PersistentFlags()}, commands: []string{path, ""}}
}

// flagUse is a flag in a command line.
type flagUse struct {
	name       string // with its dashes
	value      string // "" if the flag has none
	equal      bool   // the value follows in the same argument
	takesValue bool
	args       int         // the number of arguments that the flag and its value take up
	rest       string      // further flags of the same argument: -f of -af
	flag       *pflag.Flag // podrun's flag, or nil
	row        *row        // what podrun makes of a flag that the command does not have, or nil
}

// read returns the flag with which the arguments begin.
func (a arguments) read(args []string) flagUse {
	u := flagUse{name: args[0], args: 1}
	if u.row = words()[a.typed+" "+u.name]; a.typed != "" && u.row != nil {
		return u
	}
	next := ""
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
		next = args[1]
	}
	letters := ""
	if name, ok := strings.CutPrefix(u.name, "--"); ok {
		u.name, u.value, u.equal = strings.Cut(u.name, "=")
		name, _, _ = strings.Cut(name, "=")
		u.flag = a.lookup(func(set *pflag.FlagSet) *pflag.Flag { return set.Lookup(name) })
	} else if flag, takesNext := a.shorthands(u.name[1:]); flag != nil {
		u.flag, u.equal = flag, !takesNext
	} else {
		letters = u.name[2:]
		u.name = u.name[:2]
		u.value = strings.TrimPrefix(letters, "=")
		u.equal = letters != ""
		u.flag, _ = a.shorthands(u.name[1:])
	}
	if a.typed != "" {
		u.match(a.typed, next)
	}
	switch {
	case u.row != nil:
		u.flag = nil
	case u.flag != nil:
		u.takesValue, next = u.flag.NoOptDefVal == "", "" // also a value that begins with a dash
		if len(args) > 1 {
			next = args[1]
		}
	default:
		for _, command := range a.commands {
			if u.match(command, next); u.row != nil {
				break
			}
		}
		u.takesValue = u.takesValue || u.row == nil && slices.Contains(valueFlags, u.name)
	}
	switch {
	case u.takesValue && !u.equal && next != "":
		u.args = 2
		if u.row == nil {
			u.value = next
		}
	case !u.takesValue && letters != "" && letters[0] != '=':
		u.value = ""
		u.equal = false
		u.rest = "-" + letters
	}
	return u
}

// match sets the row of a flag of a command, and its value. Next is the argument after the flag.
func (u *flagUse) match(command, next string) {
	key, value := strings.TrimPrefix(command+" "+u.name, " "), next
	if u.equal {
		value = u.value
	}
	before, after, _ := strings.Cut(value, "=")
	for _, form := range []struct {
		key, value string
		ok, takes  bool
	}{
		{key + "=" + value, value, u.equal, false},
		{key + " " + value, value, value != "", true},
		{key + " " + before + "=VALUE", after, after != "", true},
		{key + " NUMBER", value, value != "" && strings.Trim(value, "0123456789") == "", true},
		{key + " END", "", value == "", false},
		{key + " VALUE", value, true, true},
		{key, u.value, true, false},
	} {
		if u.row = words()[form.key]; u.row != nil && form.ok {
			u.value, u.takesValue = form.value, form.takes
			return
		}
	}
	u.row = nil
}

// lookup returns a flag of podrun, or nil.
func (a arguments) lookup(in func(*pflag.FlagSet) *pflag.Flag) *pflag.Flag {
	for _, set := range a.flags {
		if flag := in(set); flag != nil {
			return flag
		}
	}
	return nil
}

// shorthands returns the last flag in the letters of an argument such as -x or -it, because only the last one can take
// the next argument as its value. It returns nil if podrun does not have one of the flags.
func (a arguments) shorthands(letters string) (flag *pflag.Flag, takesNext bool) {
	for i := range letters {
		flag = a.lookup(func(set *pflag.FlagSet) *pflag.Flag { return set.ShorthandLookup(letters[i : i+1]) })
		if flag == nil || flag.NoOptDefVal == "" && i < len(letters)-1 {
			return flag, false // the value follows in this argument
		}
	}
	return flag, true
}

// words returns the indexes of the first arguments that are neither flags nor values of flags, at most n. It stops at an
// unknown flag, because that flag may take a value.
func (a arguments) words(args []string, n int) (at []int) {
	for i := 0; i < len(args) && len(at) < n && args[i] != "--"; {
		if !isFlag(args[i]) {
			at = append(at, i)
			i++
			continue
		}
		u := a.read(args[i:])
		if u.flag == nil && u.row == nil {
			break
		}
		i += u.args
	}
	return at
}

// without returns the arguments before -- without some flags, then the other arguments. Value is that of the last flag
// that is left out.
func (a arguments) without(args []string, drop func(flagUse) bool) (rest []string, value string) {
	for len(args) > 0 && args[0] != "--" {
		u := flagUse{args: 1}
		if isFlag(args[0]) {
			u = a.read(args)
		}
		switch {
		case u.name == "" || !drop(u):
			rest = append(rest, args[:u.args]...)
			args = args[u.args:]
			continue
		case u.value != "":
			value = u.value
		}
		args = args[u.args:]
		if u.rest != "" {
			args = slices.Insert(slices.Clone(args), 0, u.rest)
		}
	}
	return append(rest, args...), value
}

// isFlag reports whether an argument is a flag; - is standard input.
func isFlag(arg string) bool { return len(arg) > 1 && arg[0] == '-' }

// valueFlags are flags of podrun and of other tools that take the next argument as their value. They matter for commands
// that podrun does not have.
var valueFlags = []string{"-n", "--namespace", "-c", "--container", "-o", "--output", "-l", "--selector", "--signal", "-t", "-u", "-p",
	"-f", "--filename", "--replicas", "--root-dir", "--runtime", "--config", "--type", "--port", "--tail", "--since"}
