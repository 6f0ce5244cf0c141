package main

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
)

// pureFile tells whether a file may only compute: everything that it knows
// comes in as an argument. Others act, and say so by their names.
func pureFile(s *source) bool {
	base := path.Base(s.name)
	acts := strings.HasPrefix(base, "apply") || strings.HasPrefix(base, "remove") || strings.HasPrefix(base, "read")
	switch {
	case s.test:
		return false
	case layerOf(s.pkg) == decider || layerOf(s.pkg) == planner:
		return true
	case s.pkg == "cri":
		return base == "print.go"
	case s.pkg == "podlog" || s.pkg == "volume/safepath":
		return false
	}
	return !acts && (layerOf(s.pkg) == noun || layerOf(s.pkg) == leaf)
}

// worldly says of a name of a package whether using it reads or changes the
// world. Types and constants don't; a function does even when it is only passed
// on. What is not listed computes.
var worldly = map[string]func(name string) bool{
	"time": oneOf("Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep", "LoadLocation", "Local"),
	"context": func(n string) bool {
		return strings.HasPrefix(n, "WithTimeout") || strings.HasPrefix(n, "WithDeadline")
	},
	"os": func(n string) bool {
		constant := strings.HasPrefix(n, "O_") || strings.HasPrefix(n, "Mode") || strings.HasPrefix(n, "Err") || strings.HasPrefix(n, "Is")
		return !constant && !oneOf("File", "FileMode", "FileInfo", "DirEntry", "PathError", "LinkError", "SyscallError", "Signal")(n)
	},
	"path/filepath": oneOf("Glob", "Walk", "WalkDir", "EvalSymlinks", "Abs"),
	"io/ioutil":     always,
	"os/exec":       always,
	"os/signal":     always,
	"os/user":       always,
	"net": func(n string) bool {
		for _, verb := range []string{"Dial", "Listen", "Lookup", "Interface", "Resolve", "File"} {
			if strings.HasPrefix(n, verb) {
				return true
			}
		}
		return n == "DefaultResolver"
	},
	"net/http": func(n string) bool {
		return !oneOf("Header", "CanonicalHeaderKey")(n) && !strings.HasPrefix(n, "Status") && !strings.HasPrefix(n, "Method")
	},
	"math/rand":    always,
	"math/rand/v2": always,
	"crypto/rand":  always,
	"runtime":      oneOf("NumCPU", "GOMAXPROCS", "NumGoroutine", "ReadMemStats"),
	"fmt":          func(n string) bool { return strings.HasPrefix(n, "Print") || strings.HasPrefix(n, "Scan") },
	"log":          always,
	"log/slog":     always,
	"syscall":      systemCall,

	"golang.org/x/sys/unix":                     systemCall,
	"golang.org/x/sync/errgroup":                always,
	"golang.org/x/time/rate":                    always,
	"k8s.io/apimachinery/pkg/util/rand":         always,
	"k8s.io/apimachinery/pkg/util/uuid":         always,
	"google.golang.org/grpc":                    always,
	"github.com/fsnotify/fsnotify":              always,
	"github.com/moby/sys/mountinfo":             oneOf("GetMounts", "Mounted", "MountedFast", "PidMountInfo"),
	"github.com/opencontainers/cgroups":         always,
	"github.com/vishvananda/netlink":            always,
	"github.com/vishvananda/netlink/nl":         always,
	"github.com/opencontainers/cgroups/manager": always,
	// Its methods can't be told apart by their names alone.
	module + "/cri": oneOf("Client"),
}

func always(string) bool { return true }

func oneOf(names ...string) func(string) bool {
	return func(n string) bool { return slices.Contains(names, n) }
}

// systemCall tells the functions of unix and syscall, Open, from constants,
// O_PATH, and types, Stat_t.
func systemCall(n string) bool {
	return strings.ContainsFunc(n, unicode.IsLower) && !strings.HasSuffix(n, "_t") && n != "Errno" && n != "Signal"
}

// function is a function or a method, or what stands outside of them in a file.
type function struct {
	file *source
	node ast.Node
	name string
	uses []use
}

// use is what a function does of interest: to touch the world, or to call
// something of podrun's that may.
type use struct {
	node  ast.Node
	world string // "calls time.Now"; else
	calls string // key of a function
}

// key names plain functions by their package; methods, whose receivers the
// syntax does not tell, by package and name alone.
func key(pkg, name string, method bool) string {
	if method {
		return pkg + " method " + name
	}
	return pkg + "." + name
}

// checkPurity finds what touches the world in the files that may not, directly
// or through any other function of podrun's.
func checkPurity(all tree) []string {
	var list []*function
	byKey := map[string][]*function{}
	for _, s := range all {
		if s.test {
			continue
		}
		for _, decl := range s.syntax.Decls {
			f := &function{file: s, node: decl, name: "the package level"}
			if d, ok := decl.(*ast.FuncDecl); ok {
				f.name = d.Name.Name
				k := key(s.pkg, f.name, d.Recv != nil)
				byKey[k] = append(byKey[k], f)
			}
			f.collect()
			list = append(list, f)
		}
	}
	acts := actors(byKey)
	var out []string
	for _, f := range list {
		if !pureFile(f.file) {
			continue
		}
		for _, u := range f.uses {
			// What a planning file touches is told there, not of its callers.
			if what := u.what(acts); what != "" && !plans(byKey[u.calls]) {
				out = append(out, f.file.at(u.node)+": "+f.name+" "+what+": pass it in, or move it to a file named apply*, remove* or read*")
			}
		}
	}
	return sorted(out)
}

// plans tells whether functions are all of planning files.
func plans(list []*function) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(f *function) bool { return !pureFile(f.file) })
}

// what says how a use touches the world; empty if it does not.
func (u use) what(acts map[string]string) string {
	if u.world != "" {
		return u.world
	}
	if how := acts[u.calls]; how != "" {
		return "calls " + u.calls[strings.LastIndexAny(u.calls, ". ")+1:] + ", which " + how
	}
	return ""
}

// actors finds the functions that touch the world, with how. Of methods of one
// name all must: else the name says nothing.
func actors(byKey map[string][]*function) map[string]string {
	acts := map[string]string{}
	for again := true; again; {
		again = false
		before := maps.Clone(acts) // so that the shortest way is the one told
		for k, functions := range byKey {
			if acts[k] != "" {
				continue
			}
			how := ""
			for _, f := range functions {
				if how = f.how(before); how == "" {
					break
				}
			}
			if how != "" {
				acts[k], again = how, true
			}
		}
	}
	return acts
}

func (f *function) how(acts map[string]string) string {
	for _, u := range f.uses {
		if what := u.what(acts); what != "" {
			return what
		}
	}
	return ""
}

// collect fills in the uses.
func (f *function) collect() {
	imports := f.file.imports()
	self := ""
	note := func(n ast.Node, world, calls string) {
		if calls != self || world != "" {
			f.uses = append(f.uses, use{n, world, calls})
		}
	}
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			note(n, "starts a goroutine", "")
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && importOf(sel, imports) == "" {
				if sel.Sel.Name == "Go" {
					note(n, "starts a goroutine", "")
				}
				note(n, "", key(f.file.pkg, sel.Sel.Name, true))
			}
		case *ast.SelectorExpr:
			full := importOf(n, imports)
			if test := worldly[full]; test != nil && test(n.Sel.Name) {
				note(n, "uses "+path.Base(full)+"."+n.Sel.Name, "")
			}
			if pkg, ok := own(full); ok {
				note(n, "", key(pkg, n.Sel.Name, false))
			}
			ast.Inspect(n.X, visit)
			return false // the name after the dot is no function of this package
		case *ast.KeyValueExpr:
			ast.Inspect(n.Value, visit)
			return false // the name before the colon is a field's
		case *ast.Ident:
			// A function of the package, and no variable of that name.
			if n.Obj == nil || n.Obj.Kind == ast.Fun {
				note(n, "", key(f.file.pkg, n.Name, false))
			}
		}
		return true
	}
	d, ok := f.node.(*ast.FuncDecl)
	if !ok {
		ast.Inspect(f.node, visit)
		return
	}
	self = key(f.file.pkg, f.name, d.Recv != nil)
	ast.Inspect(d.Type, visit)
	if d.Body != nil {
		ast.Inspect(d.Body, visit)
	}
}

// importOf is the package of a selector such as time.Now; empty if what stands
// before the dot is no package.
func importOf(sel *ast.SelectorExpr, imports map[string]string) string {
	if id, ok := sel.X.(*ast.Ident); ok && id.Obj == nil {
		return imports[id.Name]
	}
	return ""
}
