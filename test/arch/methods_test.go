package arch

import (
	"go/types"
	"testing"

	"golang.org/x/tools/go/packages"
)

// maxMethods is the maximum number of methods of a type of run or cmd, including promoted methods.
// A type with more methods probably has several responsibilities.
const maxMethods = 40

// checkMethods checks the types of run and cmd, and of their packages.
func checkMethods(t *testing.T, loaded []*packages.Package) {
	for _, p := range loaded {
		if pkg, ok := own(p.PkgPath); !ok || top(pkg) != "run" && top(pkg) != "cmd" {
			continue
		}
		for _, name := range p.Types.Scope().Names() {
			of, is := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !is || of.IsAlias() {
				continue
			}
			if n := types.NewMethodSet(types.NewPointer(of.Type())).Len(); n > maxMethods {
				t.Errorf("%s.%s has %d methods, more than %d: which of them belong to a separate type?", p.Name, name, n, maxMethods)
			}
		}
	}
}
