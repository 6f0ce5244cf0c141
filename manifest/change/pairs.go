// Package change computes changed definitions of pods, as kubectl set, label, annotate, patch and
// edit do. From a definition and the arguments of a command, each function returns a new pod, or
// a patch. It is pure, and does not validate the result.
package change

import (
	"fmt"
	"slices"
	"strings"
)

// Pair is the argument KEY=VALUE of a command.
type Pair struct{ Key, Value string }

// Pairs are the changes of named values on a command line. KEY=VALUE sets a value; KEY- removes
// one.
type Pairs struct {
	Set    []Pair
	Remove []string
}

// Split separates the arguments that name pods from the changes that follow them. The argument
// what is the word for the changes in errors, such as "label".
func Split(args []string, what string) (names, changes []string, err error) {
	at := slices.IndexFunc(args, isChange)
	if at < 0 {
		return args, nil, nil
	}
	for _, arg := range args[at:] {
		if !isChange(arg) {
			return nil, nil, fmt.Errorf("all resources must be specified before %s changes: %s", what, arg)
		}
	}
	return args[:at], args[at:], nil
}

// isChange reports whether an argument is KEY=VALUE or KEY-. The argument - is no change, but
// standard input.
func isChange(arg string) bool {
	return strings.Index(arg, "=") > 0 || len(arg) > 1 && strings.HasSuffix(arg, "-")
}

// ParsePairs parses the changes. If a key is given twice, the last value applies.
func ParsePairs(changes []string, what string) (Pairs, error) {
	var out Pairs
	for _, text := range changes {
		key, value, set := strings.Cut(text, "=")
		switch {
		case set && key != "":
			out.Set = slices.DeleteFunc(out.Set, func(p Pair) bool { return p.Key == key })
			out.Set = append(out.Set, Pair{key, value})
		case !set && len(text) > 1 && strings.HasSuffix(text, "-"):
			out.Remove = append(out.Remove, strings.TrimSuffix(text, "-"))
		default:
			return out, fmt.Errorf("invalid %s format: %s", what, text)
		}
	}
	for _, key := range out.Remove {
		if slices.ContainsFunc(out.Set, func(p Pair) bool { return p.Key == key }) {
			return out, fmt.Errorf("cannot both modify and remove the %s %q in one command", what, key)
		}
	}
	return out, nil
}
