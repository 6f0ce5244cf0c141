package arch

import "go/ast"

const quantities = "k8s.io/apimachinery/pkg/api/resource"

// checkQuantities finds calls of Kubernetes' quantity parser outside package resource. For
// 1e-99999999, that parser computes all digits, whereas package resource limits exponents. Any
// package may parse constants.
func checkQuantities(all tree) []string {
	var out []string
	for _, s := range all {
		if s.test || s.pkg == "internal/resource" || isSupport(s.pkg) {
			continue
		}
		imports, constant := s.imports(), map[ast.Expr]bool{}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			switch n := n.(type) {
			// ast.Inspect visits a call before the selector in it.
			case *ast.CallExpr:
				if len(n.Args) == 1 {
					_, constant[n.Fun] = n.Args[0].(*ast.BasicLit)
				}
			case *ast.SelectorExpr:
				pkg, ok := n.X.(*ast.Ident)
				if ok && imports[pkg.Name] == quantities && (n.Sel.Name == "ParseQuantity" || n.Sel.Name == "MustParse") && !constant[n] {
					out = append(out, s.at(n)+": parses a quantity without limits: use resource.ParseQuantity of podrun")
				}
			}
			return true
		})
	}
	return sorted(out)
}
