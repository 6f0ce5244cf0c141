package grammar

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/distribution/reference"
	"github.com/spf13/cobra"

	"github.com/podrun/podrun/internal/shellword"
)

// hintWords matches the words in a hint that fill replaces; words.txt describes them.
var hintWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{(ref)?(-?\w):([A-Z]+)\}|\b(?:NAME|IMAGE|FILE|ARGS|CMD|EXEC|ARGV)\b|VALUE\b`)
})

// fill replaces words in a hint by what was typed, so that users can paste the commands of the hint. Rest are the
// arguments after the command. If the command line has no value for a word, the word remains.
func (a arguments) fill(hint string, rest []string, values map[string]string) string {
	if field, ok := strings.CutPrefix(hint, "IN THE MANIFEST "); ok {
		hint = "add '--dry-run=client -o yaml > pod.yaml' before the image, set " + field + " in the file, and run 'podrun run pod.yaml'"
	}
	o := a.operands(rest)
	return hintWords().ReplaceAllStringFunc(hint, func(word string) string {
		m := hintWords().FindStringSubmatch(word)
		given, nth := "", strings.Index("12", m[2])
		switch {
		case m[3] != "" && nth < 0:
			given = o.flags[m[2]]
		case m[3] != "" && nth < len(o.all):
			if given = o.all[nth]; m[1] != "" {
				given = completeImage(given)
			}
		case values[word] != "":
			return values[word]
		case word == "ARGS":
			return cmp.Or(shellword.Join(rest), "…")
		case word == "ARGV":
			return "COMMAND"
		case word == "FILE":
			given = o.file
		case (word == "NAME" || word == "IMAGE") && len(o.names) > 0:
			given = o.names[0]
		}
		if given == "" {
			return cmp.Or(m[3], word)
		}
		return shellword.Quote(given)
	})
}

// fillLine fills a hint with the command line that it suggests, and the value of the flag that is left out.
func (a arguments) fillLine(c *cobra.Command, hint string, args []string, value string) string {
	values := map[string]string{"CMD": shellword.Join(append([]string{"podrun"}, args...))}
	if value != "" {
		values["VALUE"] = shellword.Quote(value)
	}
	if dash := slices.Index(args, "--"); dash >= 0 {
		values["EXEC"], values["ARGV"] = shellword.Join(append([]string{"podrun"}, args[:dash]...)), shellword.Join(args[dash+1:])
	} else {
		values["EXEC"] = values["CMD"]
	}
	return a.fill(hint, args[slices.Index(args, c.Name())+1:], values)
}

// operands are the arguments of a command that are not flags, and the values of its flags.
type operands struct {
	all   []string          // without the types of objects
	names []string          // those that are not files, also without the suffix .service
	file  string            // the manifest
	flags map[string]string // by their names with dashes
}

// operands reads the arguments of a command.
func (a arguments) operands(args []string) operands {
	o := operands{flags: map[string]string{}}
	for len(args) > 0 && args[0] != "--" {
		word := args[0]
		if isFlag(word) {
			u := a.read(args)
			o.flags[u.name] = u.value
			args = args[u.args:]
			continue
		}
		args = args[1:]
		kind, name, ok := strings.Cut(word, "/")
		isType := IsPodType(kind) || Instead(kind) != ""
		switch {
		case LooksLikeFile(word):
			o.all, o.file = append(o.all, word), word
			continue
		case isType && !ok && len(args) > 0:
			continue
		case isType && ok:
			word = name
		}
		o.all = append(o.all, word)
		o.names = append(o.names, strings.TrimSuffix(word, ".service"))
	}
	o.file = cmp.Or(o.flags["-f"], o.flags["--filename"], o.file)
	o.flags["-t"] = cmp.Or(o.flags["-t"], o.flags["--tag"])
	return o
}

// completeImage returns the complete name under which containerd stores an image.
func completeImage(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	return reference.TagNameOnly(named).String()
}
