package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// vague are words that do not describe the content of a package or file.
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

// maxPackage is the maximum number of lines of a package, without tests: a developer can know as much.
const maxPackage = 6000

// checkSizes finds packages that are too large.
func checkSizes(all tree) []string {
	lines := map[string]int{}
	for _, s := range all {
		if !s.test && !isSupport(s.pkg) {
			lines[s.pkg] += s.lines
		}
	}
	var out []string
	for pkg, n := range lines {
		if n > maxPackage {
			out = append(out, fmt.Sprintf("%s: %d lines, more than %d: which of them belong to a separate package?", pkg, n, maxPackage))
		}
	}
	return sorted(out)
}

// Limits for code that a developer can read in one pass. They are advice, which hack/lint
// prints.
const (
	maxFunction = 60
	maxFile     = 400
)

// TestLengths prints the functions and files that exceed the limits; it does not fail.
func TestLengths(t *testing.T) {
	for _, advice := range lengths(readTree(t, ".")) {
		t.Log(advice)
	}
}

// lengths measures functions and files, except tests.
func lengths(all tree) []string {
	var out []string
	for _, s := range all {
		if s.test {
			continue
		}
		if s.lines > maxFile {
			out = append(out, fmt.Sprintf("%s: %d lines, more than %d: is it one topic?", s.name, s.lines, maxFile))
		}
		for _, decl := range s.syntax.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				if lines := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1; lines > maxFunction {
					out = append(out, fmt.Sprintf("%s: %s: %d lines, more than %d: does it read at one sitting?", s.at(f), f.Name.Name, lines, maxFunction))
				}
			}
		}
	}
	return sorted(out)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
