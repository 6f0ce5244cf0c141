package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"testing"

	"golang.org/x/tools/go/packages"
)

// maxMethods is the maximum number of methods of a type, including those that fields of podrun's own types promote.
// A type with more methods probably has several responsibilities.
const maxMethods = 40

// manyMethods are the types that may have more methods: how many at most, and why.
var manyMethods = map[string]struct {
	most int
	why  string
}{
	"cri/critest.Runtime":        {100, "implements the gRPC services of the CRI"},
	"cri/critest.pod":            {121, "a pod of suite, with the methods of suite"},
	"cri/critest.suite":          {115, "a method for each case, and those of cri.Client"},
	"test/engine/rig.Supervised": {51, "a Host with a supervisor, with the methods of Host"},
}

// checkMethods checks the types of all packages.
func checkMethods(t *testing.T, loaded []*packages.Package) {
	found := map[string]bool{}
	for _, p := range loaded {
		pkg, ok := own(p.PkgPath)
		if !ok {
			continue
		}
		for _, name := range p.Types.Scope().Names() {
			of, is := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !is || of.IsAlias() {
				continue
			}
			n := methodsOf(of.Type())
			if n <= maxMethods {
				continue
			}
			found[pkg+"."+name] = true
			if most := max(maxMethods, manyMethods[pkg+"."+name].most); n > most {
				t.Errorf("%s.%s has %d methods, more than %d: which of them belong to a separate type?", pkg, name, n, most)
			}
		}
	}
	for name := range manyMethods {
		if !found[name] {
			t.Errorf("%s has at most %d methods: remove it from manyMethods", name, maxMethods)
		}
	}
}

// methodsOf counts the methods of a type and of a pointer to it. It ignores methods that a field promotes from a type of
// another module, such as those of an API object.
func methodsOf(of types.Type) int {
	set, n := types.NewMethodSet(types.NewPointer(of)), 0
	for m := range set.Methods() {
		if pkg := m.Obj().Pkg(); pkg != nil && within(pkg.Path(), module) {
			n++
		}
	}
	return n
}

// TestMethodsOf checks that methodsOf counts the methods that podrun's own types promote, and no others.
func TestMethodsOf(t *testing.T) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "a.go", "package dns; type a struct { b; error }; func (a) x() {}; type b struct{}; func (*b) y() {}; func (b) z() {}", 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := (&types.Config{}).Check(module+"/dns", set, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := methodsOf(pkg.Scope().Lookup("a").Type()); n != 3 {
		t.Errorf("%d methods, want x, y and z", n)
	}
}
