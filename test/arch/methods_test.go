package arch

import (
	"go/types"
	"testing"

	"golang.org/x/tools/go/packages"
)

// maxMethods is the maximum number of methods of a type of the engine, including promoted methods.
// A type with more methods probably has several responsibilities. Engine may have more, because it
// has a method for each operation.
const maxMethods = 40

func TestMethods(t *testing.T) {
	mode := packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedExportFile | packages.NeedSyntax | packages.NeedTypesInfo | packages.NeedFiles
	loaded, err := packages.Load(&packages.Config{Mode: mode, BuildFlags: []string{"-tags", "grpcnotrace"}}, "./run/...")
	if err != nil || len(loaded) == 0 {
		t.Fatalf("%d packages, %v", len(loaded), err)
	}
	for _, p := range loaded {
		for _, err := range p.Errors {
			t.Fatal(err)
		}
		for _, name := range p.Types.Scope().Names() {
			of, is := p.Types.Scope().Lookup(name).(*types.TypeName)
			if !is || of.IsAlias() || p.Name == "run" && name == "Engine" {
				continue
			}
			if n := types.NewMethodSet(types.NewPointer(of.Type())).Len(); n > maxMethods {
				t.Errorf("%s.%s has %d methods, more than %d: which of them belong to a separate type?", p.Name, name, n, maxMethods)
			}
		}
	}
}
