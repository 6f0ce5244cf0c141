package arch

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/tools/go/packages"
)

// pure are the packages that plan and decide. None of their functions may read or change the state
// of the system, or call, directly or indirectly, a function of podrun that does. The clock, IDs
// and the environment are arguments of these functions. The test does not follow calls through an
// interface or a function value, because the caller passes these values.
var pure = []string{
	"admission", "dns", "host", "run/lifecycle", "run/prepare", "service",
	"internal/event", "internal/identity", "internal/resource",
	"serve/imagegc", "serve/shutdown", "cmd/view",
}

// alsoPure are pure functions in other packages: decisions of the supervisor, and parsers of
// fetched input.
var alsoPure = []string{
	"cri.Value", "host/doctor.Examine", "host/nodeconfig.Parse", "imagepull.Classify", "manifest.Load",
	"sandbox/cni.Parse", "serve/cluster/certificate.Next", "serve/eviction.Next", "serve/schedule.CronJob", "serve/schedule.Job", "serve/source.Merge", "serve/supervisor.Decide", "volume.New",
}

// effects reports whether a name of an external package reads or changes the system. A function
// counts even if it is only passed as a value; types and constants do not count.
var effects = map[string]func(name string) bool{
	"time":          oneOf("Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep", "LoadLocation", "Local"),
	"context":       starts("WithTimeout", "WithDeadline"),
	"path/filepath": oneOf("Glob", "Walk", "WalkDir", "EvalSymlinks", "Abs"),
	"os":            func(n string) bool { return !starts("O_", "Mode", "Err", "Is")(n) },
	"net":           starts("Dial", "Listen", "Lookup", "Interface", "Resolve", "File", "DefaultResolver"),
	"net/http": func(n string) bool {
		return !oneOf("CanonicalHeaderKey", "ParseTime")(n) && !starts("Status", "Method")(n)
	},
	"runtime": oneOf("NumCPU", "GOMAXPROCS", "NumGoroutine", "ReadMemStats"),
	"fmt":     starts("Print", "Scan"),
	"syscall": systemCall, "golang.org/x/sys/unix": systemCall,
	"os/exec": always, "os/signal": always, "os/user": always, "log": always, "log/slog": always,
	"math/rand": always, "math/rand/v2": always, "crypto/rand": always,
	"golang.org/x/sync/errgroup": always, "golang.org/x/time/rate": always,
	"k8s.io/apimachinery/pkg/util/rand": always, "k8s.io/apimachinery/pkg/util/uuid": always,
	"google.golang.org/grpc": always, "github.com/fsnotify/fsnotify": always,
	"github.com/moby/sys/mountinfo":     oneOf("GetMounts", "Mounted", "MountedFast", "PidMountInfo"),
	"github.com/opencontainers/cgroups": always, "github.com/opencontainers/cgroups/manager": always,
	"github.com/vishvananda/netlink": always, "github.com/vishvananda/netlink/nl": always,
}

func always(string) bool { return true }

func oneOf(names ...string) func(string) bool {
	return func(n string) bool { return slices.Contains(names, n) }
}

func starts(prefixes ...string) func(string) bool {
	return func(n string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(n, p) })
	}
}

// systemCall reports whether a name is a function such as unix.Open, and not a constant such as
// unix.O_PATH.
func systemCall(n string) bool {
	return strings.ContainsFunc(n, unicode.IsLower) && !strings.HasSuffix(n, "_t")
}

// TestTypedCode checks the rules that require the types of the whole program, which it loads once.
func TestTypedCode(t *testing.T) {
	loaded := loadPackages(t, ".", "./...")
	t.Run("purity", func(t *testing.T) { checkPurity(t, loaded) })
	t.Run("methods", func(t *testing.T) { checkMethods(t, loaded) })
}

// checkPurity checks that no planning code calls a function with an effect.
func checkPurity(t *testing.T, loaded []*packages.Package) {
	calls := &calls{bodies: map[*types.Func]*body{}}
	for _, p := range loaded {
		calls.add(p)
	}
	if len(calls.bodies) < 3000 {
		t.Fatalf("only %d functions were found: the rule would check almost nothing", len(calls.bodies))
	}
	for _, complaint := range calls.check(pure, alsoPure) {
		t.Error(complaint)
	}
}

// calls contains the names that each function of podrun uses.
type calls struct {
	bodies map[*types.Func]*body
}

// body is a function with its position and the names that it uses.
type body struct {
	pkg, name string // such as run/lifecycle, and Next or Worker.until
	at        string // file and line
	// the impure name that the function uses, with its position; "" if there is none
	effect string
	calls  []*types.Func
}

// loadCalls loads the packages of a module with their types, without tests.
func loadCalls(t *testing.T, dir string, patterns ...string) *calls {
	t.Helper()
	out := &calls{bodies: map[*types.Func]*body{}}
	for _, p := range loadPackages(t, dir, patterns...) {
		out.add(p)
	}
	return out
}

// loadPackages loads packages of a module with their types, without tests. The types of other modules come from the
// build cache.
func loadPackages(t *testing.T, dir string, patterns ...string) []*packages.Package {
	t.Helper()
	mode := packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedExportFile
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: dir, BuildFlags: []string{"-tags", "grpcnotrace"}}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range loaded {
		for _, err := range p.Errors {
			t.Fatal(err)
		}
	}
	return loaded
}

// add records the functions of a package. It does not include the initializers of package
// variables.
func (c *calls) add(p *packages.Package) {
	pkg, ok := own(p.PkgPath)
	if !ok {
		return
	}
	for _, file := range p.Syntax {
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			object := p.TypesInfo.Defs[f.Name].(*types.Func)
			at := p.Fset.Position(f.Pos())
			b := &body{pkg: pkg, name: receiver(f) + f.Name.Name, at: fmt.Sprintf("%s/%s:%d", pkg, path.Base(at.Filename), at.Line)}
			c.bodies[object] = b
			ast.Inspect(f.Body, func(n ast.Node) bool {
				what := ""
				switch n := n.(type) {
				case *ast.GoStmt:
					what = "a goroutine"
				case *ast.Ident:
					what = c.use(b, p.TypesInfo.Uses[n])
				}
				if what != "" && b.effect == "" {
					b.effect = fmt.Sprintf("%s (%s/%s:%d)", what, pkg, path.Base(at.Filename), p.Fset.Position(n.Pos()).Line)
				}
				return true
			})
		}
	}
}

// use records that a function uses an object. If the use itself is an effect, it returns the
// object's name.
func (c *calls) use(b *body, object types.Object) string {
	if object == nil || object.Pkg() == nil {
		return ""
	}
	full := object.Pkg().Path()
	f, isFunc := object.(*types.Func)
	if pkg, ok := own(full); ok {
		if isFunc {
			b.calls = append(b.calls, f.Origin())
		}
		for _, part := range []string{"cri.Client", "cri.Images", "cri.Streaming", "cri.Containerd"} {
			if isFunc && pkg == "cri" && strings.Contains(f.FullName(), part+")") {
				return part + "." + f.Name()
			}
		}
		return ""
	}
	_, isVar := object.(*types.Var)
	name, test := path.Base(full)+"."+object.Name(), effects[full]
	switch {
	case full == "sync" && isFunc && object.Name() == "Go":
		return "a goroutine"
	case test == nil || !isFunc && !isVar || !test(object.Name()):
		return ""
	// the object is in package scope, so it is not a method or a field
	case object.Parent() == object.Pkg().Scope():
		return name
	}
	return ""
}

// check returns those functions of the packages, and those of the named functions, that have an effect. Each result
// contains the chain of calls that leads to the effect.
func (c *calls) check(packages, functions []string) []string {
	var out []string
	unknown := slices.Clone(functions)
	for f, b := range c.bodies {
		named := b.pkg + "." + b.name
		if i := slices.Index(unknown, named); i >= 0 {
			unknown = slices.Delete(unknown, i, i+1)
		}
		if slices.Contains(packages, b.pkg) || slices.Contains(functions, named) {
			if chain := c.effect(f, map[*types.Func]bool{}); chain != "" {
				out = append(out, b.at+": "+chain+": pass the value in as an argument")
			}
		}
	}
	for _, name := range unknown {
		out = append(out, name+": there is no such function")
	}
	return sorted(out)
}

// effect returns the chain of calls to an effect, such as "New calls Read, which uses os.Open".
// It returns "" if there is none.
func (c *calls) effect(f *types.Func, seen map[*types.Func]bool) string {
	b := c.bodies[f]
	if b == nil || seen[f] {
		return ""
	}
	seen[f] = true
	if b.effect != "" {
		return path.Base(b.pkg) + "." + b.name + " uses " + b.effect
	}
	for _, callee := range b.calls {
		if chain := c.effect(callee, seen); chain != "" {
			return path.Base(b.pkg) + "." + b.name + " → " + chain
		}
	}
	return ""
}
