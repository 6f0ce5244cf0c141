package arch

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Names in backticks on a page: run/next.go, or run.Engine.Apply, the last part
// of the package's path first.
var (
	codeInPage = regexp.MustCompile("`([^`\n]+)`")
	goFile     = regexp.MustCompile(`^[a-z_/]+\.go$`)
	goName     = regexp.MustCompile(`^([a-z]+)\.(\w+)(?:\.(\w+))?$`)
	link       = regexp.MustCompile(`\]\(([^)#:]+)\)`)
)

// TestArchitecturePage holds ARCHITECTURE.md to the files and names that there
// are, and to name every package.
func TestArchitecturePage(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	all := readTree(t, ".")
	names, packages := declared(all)
	found := 0
	for _, m := range codeInPage.FindAllStringSubmatch(string(text), -1) {
		n := goName.FindStringSubmatch(m[1])
		switch {
		case goFile.MatchString(m[1]):
			found++
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("ARCHITECTURE.md names %s: %v", m[1], err)
			}
		case n != nil && packages[n[1]] && !strings.HasSuffix(m[1], ".md"):
			found++
			if !names[m[1]] {
				t.Errorf("ARCHITECTURE.md names %s, which package %s does not have", m[1], n[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d names were found in ARCHITECTURE.md: is it still written in backticks?", found)
	}
	for _, s := range all {
		if !isSupport(s.pkg) && s.pkg != "." && !strings.Contains(string(text), "`"+s.pkg+"`") {
			t.Errorf("ARCHITECTURE.md does not name package %s", s.pkg)
		}
	}
}

// declared lists what the packages declare, as run.Next and run.Engine.Apply,
// and their names.
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

// receiver is "Engine." for a method of Engine or *Engine.
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

// TestLinksInPages follows the links between the pages.
func TestLinksInPages(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
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
