package grammar

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/distribution/reference"

	"github.com/podrun/podrun/internal/shellword"
)

// placeholders matches the words in hints that fillHint replaces.
var placeholders = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(NAME|FILE|IMAGE|SOURCE|TARGET|ARGS|PORT|COMMAND|TAG|SOURCE_REF|TARGET_REF|ARCHIVE|IMPORT_NAME|KUSTOMIZATION|HOST_COMMAND)\b(\.tar\b)?`)
})

// shownPlaceholders maps placeholders to more specific names. podrun prints these if the command
// line has no value for the placeholder.
var shownPlaceholders = map[string]string{"SOURCE_REF": "SOURCE", "TARGET_REF": "TARGET",
	"ARCHIVE": "FILE", "IMPORT_NAME": "NAME", "KUSTOMIZATION": "DIR", "HOST_COMMAND": "COMMAND"}

// FillHint replaces NAME, IMAGE, FILE and similar words in a hint by the values in the rejected
// command line, so that users can paste the hint. If the command line has no value for a word,
// the word remains.
func FillHint(hint string, rest []string) string {
	names, file := operands(rest)
	hint = strings.ReplaceAll(hint, " REST", withoutPassword(rest))
	return placeholders().ReplaceAllStringFunc(hint, func(word string) string {
		given := ""
		switch {
		case word == "ARGS" && len(WithoutDryRun(rest)) == 0:
			given = "…"
		case word == "ARGS":
			given = shellword.Join(WithoutDryRun(rest))
		case word == "FILE":
			given = shellword.Quote(file)
		case word == "PORT" || strings.HasSuffix(word, ".tar"):
			return word
		case word == "SOURCE_REF" && len(names) > 0:
			given = imageRefs(names[:1])
		case word == "TARGET_REF" && len(names) > 1:
			given = imageRefs(names[1:2])
		case word == "ARCHIVE" || word == "KUSTOMIZATION":
			given = shellword.Quote(pathOf(rest))
		case word == "IMPORT_NAME":
			if named := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == pathOf(rest) }); len(named) > 0 {
				given = shellword.Quote(named[0])
			}
		case word == "HOST_COMMAND":
			given = shellword.Join(withoutLeadingFlags(rest))
		case shownPlaceholders[word] != "":
		case word == "TAG":
			given = shellword.Quote(tagOf(rest))
		case word == "COMMAND" && len(names) > 0:
			given = shellword.Join(after(rest, names[0]))
		case word == "COMMAND":
			return word
		case word == "TARGET" && len(names) > 1:
			given = shellword.Quote(names[1])
		case word != "TARGET" && len(names) > 0:
			given = shellword.Quote(names[0])
		}
		if given == "" || given == "''" {
			return cmp.Or(shownPlaceholders[word], word)
		}
		return given
	})
}

// valueFlags are the flags of other tools and of podrun that take a value as the next argument.
var valueFlags = []string{"-n", "--namespace", "-c", "--container", "-o", "--output", "-l", "--selector", "-s", "--signal", "-t", "-u", "-p",
	"--replicas", "--root-dir", "--runtime", "--config", "--type", "--port", "--tail", "--since"}

// withoutPassword returns the arguments of docker login after a space, without the password.
func withoutPassword(rest []string) string {
	for _, flag := range []string{"p", "password"} {
		rest, _ = WithoutFlag(rest, flag, true)
	}
	if len(rest) == 0 {
		return ""
	}
	return " " + shellword.Join(rest)
}

// operands returns the names of objects and the manifest in the arguments of a rejected
// command. Names have neither their type (deploy/web, deployment web) nor the suffix .service.
func operands(rest []string) (names []string, file string) {
	for i := 0; i < len(rest) && rest[i] != "--"; i++ {
		word := rest[i]
		value, isFile := strings.CutPrefix(word, "--filename=")
		switch {
		case isFile:
			file = value
		case word == "-f" || word == "--filename":
			if i++; i < len(rest) {
				file = rest[i]
			}
		case slices.Contains(valueFlags, word):
			i++
		case strings.HasPrefix(word, "-"):
		case LooksLikeFile(word):
			file = word
		case (IsPodType(word) || Instead(word) != "") && i+1 < len(rest):
		default:
			if kind, name, ok := strings.Cut(word, "/"); ok && (IsPodType(kind) || Instead(kind) != "") {
				word = name
			}
			names = append(names, strings.TrimSuffix(word, ".service"))
		}
	}
	return names, file
}

// imageRefs returns the images by the complete names under which containerd stores them.
func imageRefs(names []string) string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = name
		if named, err := reference.ParseNormalizedNamed(name); err == nil {
			out[i] = reference.TagNameOnly(named).String()
		}
	}
	return shellword.Join(out)
}

// pathOf returns the first argument that is neither a flag, nor the value of a flag, nor the word build
// (as in kustomize build). It returns "" if there is none.
func pathOf(rest []string) string {
	for i := 0; i < len(rest); i++ {
		switch word := rest[i]; {
		case slices.Contains(valueFlags, word):
			i++
		case word == "-" || !strings.HasPrefix(word, "-") && word != "build":
			return word
		}
	}
	return ""
}

// withoutLeadingFlags returns the arguments, beginning with the first one that is not a flag.
func withoutLeadingFlags(rest []string) []string {
	for i, word := range rest {
		if !strings.HasPrefix(word, "-") {
			return rest[i:]
		}
	}
	return nil
}

// after returns the arguments after the one that names a pod, without --.
func after(rest []string, name string) []string {
	at := slices.IndexFunc(rest, func(arg string) bool { return arg == name || strings.HasSuffix(arg, "/"+name) })
	rest = rest[at+1:]
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	return rest
}

// tagOf returns the tag of docker build -t TAG, or "".
func tagOf(rest []string) string {
	for i, arg := range rest {
		if tag, ok := strings.CutPrefix(arg, "--tag="); ok {
			return tag
		}
		if (arg == "-t" || arg == "--tag") && i+1 < len(rest) {
			return rest[i+1]
		}
	}
	return ""
}

// WithoutDryRun returns the arguments of kubectl create without --dry-run and -o, because the
// hints already contain these flags.
func WithoutDryRun(rest []string) []string {
	var out []string
	for i := 0; i < len(rest); i++ {
		switch {
		case rest[i] == "-o" || rest[i] == "--output":
			i++
		case strings.HasPrefix(rest[i], "--dry-run"), strings.HasPrefix(rest[i], "-o"), strings.HasPrefix(rest[i], "--output="):
		default:
			out = append(out, rest[i])
		}
	}
	return out
}

// WithoutFlag returns a command line without a flag, and the flag's value, which may be the next
// argument if takesValue is set. Name has no dashes.
func WithoutFlag(args []string, name string, takesValue bool) (rest []string, value string) {
	dashed := "--" + name
	if len(name) == 1 && !slices.ContainsFunc(args, func(arg string) bool { // --v=6 of kubectl
		given, _, _ := strings.Cut(arg, "=")
		return given == dashed
	}) {
		dashed = "-" + name
	}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		given, hasValue := strings.CutPrefix(arg, dashed+"=")
		attached, isAttached := strings.CutPrefix(arg, dashed)
		switch {
		case arg == "--":
			return append(rest, args[i:]...), value
		case hasValue:
			value = given
		case arg == dashed && takesValue && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"):
			i++
			value = args[i]
		case arg == dashed:
		case len(name) == 1 && isAttached && takesValue:
			value = attached
		case len(name) == 1 && len(arg) > 2 && arg[0] == '-' && arg[1] != '-' && strings.Contains(arg, name) && !takesValue: // -af
			rest = append(rest, strings.Replace(arg, name, "", 1))
		default:
			rest = append(rest, arg)
		}
	}
	return rest, value
}
