package arch

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// vague are words that say nothing of what a package or file holds.
var vague = []string{"util", "utils", "common", "helper", "helpers", "misc"}

func checkNames(all tree) []string {
	var out []string
	for _, s := range all {
		words := strings.Split(strings.TrimSuffix(path.Base(s.name), ".go"), "_")
		words = append(words, strings.TrimSuffix(s.syntax.Name.Name, "_test"), path.Base(s.pkg))
		for _, w := range words {
			if slices.Contains(vague, w) {
				out = append(out, s.name+": \""+w+"\" names nothing: name the noun or the verb")
				break
			}
		}
	}
	return out
}

func checkDocs(all tree) []string {
	documented := map[string]bool{}
	for _, s := range all {
		documented[s.pkg] = documented[s.pkg] || s.syntax.Doc != nil
	}
	var out []string
	for pkg, ok := range documented {
		if !ok {
			out = append(out, pkg+": the package has no doc comment")
		}
	}
	return sorted(out)
}

// What reads at one sitting.
const (
	maxFunction = 60
	maxFile     = 400
)

// long are the exceptions, by file or "file function", each with its reason.
// There are none.
var long = map[string]string{}

// sizes measures functions and files, but not tests.
func sizes(except map[string]string) func(tree) []string {
	return func(all tree) []string {
		var out []string
		used := map[string]bool{}
		measure := func(name, where string, lines, limit int) {
			if lines <= limit {
				return
			}
			used[name] = true
			if except[name] == "" {
				out = append(out, where+": "+strconv.Itoa(lines)+" lines, more than "+strconv.Itoa(limit)+": split it, or give the reason in arch_test.go")
			}
		}
		for _, s := range all {
			if s.test {
				continue
			}
			measure(s.name, s.name, s.lines, maxFile)
			for _, decl := range s.syntax.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok {
					lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1
					measure(s.name+" "+f.Name.Name, s.at(f)+": "+f.Name.Name, lines, maxFunction)
				}
			}
		}
		for name := range except {
			if !used[name] {
				out = append(out, name+": is not too long: take it off the exceptions in arch_test.go")
			}
		}
		return sorted(out)
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
