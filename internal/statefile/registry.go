package statefile

import (
	"cmp"
	"context"
	"os"
	"slices"

	"github.com/podrun/podrun/internal/identity"
)

// declared is a Kind without its type parameter.
type declared interface {
	row() Row
	scan(ctx context.Context, l identity.Layout) []*Fault
}

// kinds contains every kind of the packages that this program links. It changes only while packages are
// initialized.
var kinds []declared

// Declare returns a kind, and adds it to the kinds that Scan examines and Rows lists. It panics if the
// declaration omits an answer, or if a file that all pods share could make an operation fail.
func Declare[T any](k Kind[T]) *Kind[T] {
	validate(&k)
	kinds = append(kinds, &k)
	return &k
}

func validate[T any](k *Kind[T]) {
	for _, a := range []Action{k.On.Corrupt, k.On.Unreadable, k.On.Newer} {
		if a == "" || a == Refuse && k.Scope == Host {
			panic("statefile: " + k.Files + ": the answer \"" + string(a) + "\" is not permitted")
		}
	}
	if k.What == "" || k.Files == "" || k.Scope == "" || k.On.Absent == "" || k.Paths == nil {
		panic("statefile: " + k.Files + ": the declaration is incomplete")
	}
}

// Row describes a kind for the documentation.
type Row struct {
	Files, What string
	Scope       Scope
	On          Answers
	Versioned   bool // the file has a schema version
}

// Rows describes all kinds, sorted by path.
func Rows() []Row {
	var out []Row
	for _, k := range kinds {
		out = append(out, k.row())
	}
	slices.SortFunc(out, func(a, b Row) int { return cmp.Compare(a.Files, b.Files) })
	return out
}

func (k *Kind[T]) row() Row {
	return Row{Files: k.Files, What: k.What, Scope: k.Scope, On: k.On, Versioned: k.Format != Unversioned}
}

// Scan examines the state files of a root directory whose scope is selected, and returns those that
// podrun cannot use, sorted by path. It changes nothing.
func Scan(ctx context.Context, l identity.Layout, selected func(Scope) bool) []*Fault {
	var out []*Fault
	for _, k := range kinds {
		if selected(k.row().Scope) {
			out = append(out, k.scan(ctx, l)...)
		}
	}
	slices.SortFunc(out, func(a, b *Fault) int { return cmp.Compare(a.Path, b.Path) })
	return out
}

func (k *Kind[T]) scan(ctx context.Context, l identity.Layout) (out []*Fault) {
	for _, path := range k.Paths(l) {
		if f := k.Examine(ctx, path).Fault; f != nil && !LacksResources(f) {
			out = append(out, f)
		}
	}
	return out
}

// At returns a Paths function for a single file of a directory.
func At[Dir any](dir func(identity.Layout) Dir, path func(Dir) string) func(identity.Layout) []string {
	return func(l identity.Layout) []string { return []string{path(dir(l))} }
}

// EachPod returns a Paths function for a file that a pod's directory may have.
func EachPod(path func(identity.PodDir) string) func(identity.Layout) []string {
	return func(l identity.Layout) (out []string) {
		entries, _ := os.ReadDir(l.PodsDir()) // the caller that lists the pods reports the error
		for _, e := range entries {
			if identity.SafeUID(e.Name()) {
				out = append(out, path(l.Pod(e.Name())))
			}
		}
		return out
	}
}
