package arch

import "go/ast"

// globInput is the file that expands the patterns that the user typed.
const globInput = "cmd/cli/input.go"

// checkGlobs finds calls that use a path as a pattern. Such a path usually begins with a directory
// from the settings, in whose name * and [ have no meaning. Tests use directories that they create.
func checkGlobs(all tree) []string {
	var out []string
	for _, s := range all {
		if s.test || s.name == globInput || isSupport(s.pkg) {
			continue
		}
		imports := s.imports()
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Glob" {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && (imports[pkg.Name] == "path/filepath" || imports[pkg.Name] == "io/fs") {
				out = append(out, s.at(n)+": uses a path as a pattern: use hostfile.Entries, which compares only the names in a directory")
			}
			return true
		})
	}
	return sorted(out)
}
