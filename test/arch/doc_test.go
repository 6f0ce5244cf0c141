package arch

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// These expressions match names in backticks on a page: run/next.go, or run.Apply, which
// begins with the last element of the package's path.
var (
	codeInPage = regexp.MustCompile("`([^`\n]+)`")
	goFile     = regexp.MustCompile(`^[a-z_/]+\.go$`)
	goName     = regexp.MustCompile(`^([a-z]+)\.(\w+)(?:\.(\w+))?$`)
	link       = regexp.MustCompile(`\]\(([^)#:]+)\)`)
)

// introduction is the maximum number of words in ARCHITECTURE.md, so that a new developer can
// read it in five minutes.
const introduction = 1200

// TestArchitecturePages checks that the files and names in ARCHITECTURE.md and docs/design
// exist, and that these pages name every directory and package.
func TestArchitecturePages(t *testing.T) {
	ring.Require(t, 2)
	pages, err := filepath.Glob("docs/design/*.md")
	if err != nil {
		t.Fatal(err)
	}
	all := readTree(t, ".")
	names, packages := declared(all)
	texts, found := map[string]string{}, 0
	for _, page := range append(pages, "ARCHITECTURE.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		texts[page] = string(text)
		for _, m := range codeInPage.FindAllStringSubmatch(string(text), -1) {
			n := goName.FindStringSubmatch(m[1])
			switch {
			case goFile.MatchString(m[1]):
				found++
				if _, err := os.Stat(m[1]); err != nil {
					t.Errorf("%s names %s: %v", page, m[1], err)
				}
			case n != nil && packages[n[1]] && !strings.HasSuffix(m[1], ".md"):
				found++
				if !names[m[1]] {
					t.Errorf("%s names %s, which package %s does not have", page, m[1], n[1])
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d names were found: are they still written in backticks?", found)
	}
	if n := len(strings.Fields(texts["ARCHITECTURE.md"])); n > introduction {
		t.Errorf("ARCHITECTURE.md has %d words, more than %d: move references to docs/design", n, introduction)
	}
	missing := map[string]bool{}
	for _, s := range all {
		if !isSupport(s.pkg) && s.pkg != "." && !strings.Contains(texts["docs/design/packages.md"], "`"+s.pkg+"`") {
			missing[s.pkg] = true
		}
	}
	for pkg := range missing {
		t.Errorf("docs/design/packages.md does not name package %s", pkg)
	}
	for _, d := range directories {
		if d.name != "." && !strings.Contains(texts["ARCHITECTURE.md"], "\n| `"+d.name+"` ") {
			t.Errorf("the table of ARCHITECTURE.md has no line for directory %s", d.name)
		}
	}
}

// declared lists the declarations of packages, in the format run.Next and run.Apply, and the
// names of the packages.
func declared(all tree) (names, packages map[string]bool) {
	names, packages = map[string]bool{}, map[string]bool{}
	for _, s := range all {
		if s.test {
			continue
		}
		base := path.Base(s.pkg)
		packages[base] = true
		for _, decl := range s.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				names[base+"."+receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						names[base+"."+spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, id := range spec.Names {
							names[base+"."+id.Name] = true
						}
					}
				}
			}
		}
	}
	return names, packages
}

// receiver returns "Node." for a method of Node or *Node.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	kind := f.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	if id, ok := kind.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}

// TestLinksInPages checks that the links between the pages are valid.
func TestLinksInPages(t *testing.T) {
	ring.Require(t, 2)
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	design, err := filepath.Glob("docs/design/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(append(pages, design...), "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}
