package arch

import (
	"go/ast"
	"go/token"
	"strings"
)

// checkPatterns finds regular expressions that every start of podrun would compile, whether the command uses them or
// not: those of package variables. Compiling one takes up to 0.4 ms and 300 KB.
func checkPatterns(all tree) []string {
	var out []string
	for _, s := range all {
		if s.test || isSupport(s.pkg) || strings.HasSuffix(s.pkg, "test") {
			continue
		}
		imports := s.imports()
		for _, d := range s.syntax.Decls {
			if decl, ok := d.(*ast.GenDecl); !ok || decl.Tok != token.VAR {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if _, function := n.(*ast.FuncLit); function {
					return false
				}
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || sel.Sel.Name != "MustCompile" && sel.Sel.Name != "MustCompilePOSIX" {
					return true
				}
				if pkg, ok := sel.X.(*ast.Ident); ok && imports[pkg.Name] == "regexp" {
					out = append(out, s.at(n)+": each start compiles this regular expression: use sync.OnceValue")
				}
				return true
			})
		}
	}
	return sorted(out)
}
