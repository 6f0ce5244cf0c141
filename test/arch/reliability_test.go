package arch

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

var (
	// faultRow matches a row in the table of docs/reliability.md: the name, the damage,
	// and the tests or explanation.
	faultRow = regexp.MustCompile(`(?m)^\| ([FDB][0-9]+) \| ([^|]+) \| ([^|]+) \|$`)
	// testName matches a test in backticks: run/lifecycle.TestNext,
	// main.TestScripts/timeout.
	testName = regexp.MustCompile("`([a-z0-9/-]+)\\.((?:Test|Fuzz)\\w+)(?:/(\\w+))?`")
)

// testNames returns the tests of this module in the form of testName.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	for _, s := range readTree(t, ".") {
		for _, decl := range s.syntax.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && s.test && f.Recv == nil {
				pkg := s.pkg
				if pkg == "." {
					pkg = "main"
				}
				tests[pkg+"."+f.Name.Name] = true
			}
		}
	}
	return tests
}

// TestDocReliability checks that docs/reliability.md contains a row for each known fault, and that
// each row names an existing test or contains a sentence.
func TestDocReliability(t *testing.T) {
	ring.Require(t, 2)
	text, err := os.ReadFile("docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	rows := map[string]bool{}
	for _, row := range faultRow.FindAllStringSubmatch(string(text), -1) {
		name, held := row[1], row[3]
		if rows[name] {
			t.Errorf("%s occurs twice", name)
		}
		rows[name] = true
		named := testName.FindAllStringSubmatch(held, -1)
		for _, n := range named {
			if !tests[n[1]+"."+n[2]] {
				t.Errorf("%s: there is no test %s.%s", name, n[1], n[2])
			}
			if n[2] != "TestScripts" || n[3] == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join("testdata", "script", n[3]+".txtar")); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if len(named) == 0 && !strings.HasSuffix(strings.TrimSpace(held), ".") {
			t.Errorf("%s has neither a test nor a sentence: %q", name, held)
		}
	}
	for kind, most := range map[string]int{"F": 11, "D": 12, "B": 31} {
		for i := range most {
			if name := fmt.Sprint(kind, i+1); !rows[name] {
				t.Errorf("docs/reliability.md has no row %s", name)
			}
		}
	}
}
