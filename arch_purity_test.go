package main

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"unicode"
)

// pureFile reports whether a file may only compute: everything that it knows
// comes in as an argument. Others act, and say so by their names.
func pureFile(s *source) bool {
	switch {
	case s.test:
		return false
	case layerOf(s.pkg) == decider || layerOf(s.pkg) == planner:
		return true
	case s.pkg == "cri":
		return path.Base(s.name) == "print.go"
	case s.pkg == "podlog" || s.pkg == "volume/safepath":
		return false
	}
	return !starts("apply", "remove", "read")(path.Base(s.name)) && (layerOf(s.pkg) == noun || layerOf(s.pkg) == leaf)
}

// worldly reports whether using a name of a package reads or changes the
// world. Types and constants don't; a function does even when it is only passed
// on. What is not listed computes.
var worldly = map[string]func(name string) bool{
	"time":          oneOf("Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer", "Sleep", "LoadLocation", "Local"),
	"context":       starts("WithTimeout", "WithDeadline"),
	"path/filepath": oneOf("Glob", "Walk", "WalkDir", "EvalSymlinks", "Abs"),
	"os": func(n string) bool {
		return !starts("O_", "Mode", "Err", "Is")(n) && !oneOf("File", "FileMode", "FileInfo", "DirEntry", "PathError", "LinkError", "SyscallError", "Signal")(n)
	},
	"net": starts("Dial", "Listen", "Lookup", "Interface", "Resolve", "File", "DefaultResolver"),
	"net/http": func(n string) bool {
		return !oneOf("Header", "CanonicalHeaderKey")(n) && !starts("Status", "Method")(n)
	},
	"runtime": oneOf("NumCPU", "GOMAXPROCS", "NumGoroutine", "ReadMemStats"),
	"fmt":     starts("Print", "Scan"),
	"syscall": systemCall, "golang.org/x/sys/unix": systemCall,
	"io/ioutil": always, "os/exec": always, "os/signal": always, "os/user": always, "log": always, "log/slog": always,
	"math/rand": always, "math/rand/v2": always, "crypto/rand": always,
	"golang.org/x/sync/errgroup": always, "golang.org/x/time/rate": always,
	"k8s.io/apimachinery/pkg/util/rand": always, "k8s.io/apimachinery/pkg/util/uuid": always,
	"google.golang.org/grpc": always, "goroutine": always, "github.com/fsnotify/fsnotify": always,
	"github.com/moby/sys/mountinfo":     oneOf("GetMounts", "Mounted", "MountedFast", "PidMountInfo"),
	"github.com/opencontainers/cgroups": always, "github.com/opencontainers/cgroups/manager": always,
	"github.com/vishvananda/netlink": always, "github.com/vishvananda/netlink/nl": always,
	module + "/cri": oneOf("Client"), // its methods cannot be distinguished by their names alone
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

// systemCall distinguishes the functions of unix and syscall, Open, from constants,
// O_PATH, and types, Stat_t.
func systemCall(n string) bool {
	return strings.ContainsFunc(n, unicode.IsLower) && !strings.HasSuffix(n, "_t") && n != "Errno" && n != "Signal"
}

// checkPurity finds, in the files that may only compute, worldly names,
// goroutines, and functions of podrun's that an acting file declares. It follows
// no calls: each function is held to the rule in the file that declares it.
func checkPurity(all tree) []string {
	acting := map[string]bool{} // functions, as import path and name; no methods
	for _, s := range all {
		for _, decl := range s.syntax.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && !s.test && !pureFile(s) {
				acting[module+"/"+s.pkg+" "+f.Name.Name] = true
			}
		}
	}
	var out []string
	for _, s := range all {
		if !pureFile(s) {
			continue
		}
		s.eachName(func(n ast.Node, full, name string) {
			test := worldly[full]
			if acting[full+" "+name] || test != nil && test(name) {
				out = append(out, s.at(n)+": uses "+path.Base(full)+"."+name+": pass it in, or move it to a file named apply*, remove* or read*")
			}
		})
	}
	return sorted(out)
}

// eachName visits what the file uses of packages, its own among them, by import
// path and name. A goroutine that it starts is goroutine.start.
func (s *source) eachName(visit func(n ast.Node, full, name string)) {
	imports := s.imports()
	var walk func(n ast.Node) bool
	walk = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			ast.Inspect(n.Type, walk)
			if n.Body != nil {
				ast.Inspect(n.Body, walk)
			}
			return false // a method's name and receiver are none of the package's functions
		case *ast.GoStmt:
			visit(n, "goroutine", "start")
		case *ast.SelectorExpr:
			id, ok := n.X.(*ast.Ident)
			switch {
			case ok && id.Obj == nil && imports[id.Name] != "":
				visit(n, imports[id.Name], n.Sel.Name)
			case n.Sel.Name == "Go":
				visit(n, "goroutine", "start")
			}
			ast.Inspect(n.X, walk)
			return false // the name after the dot is no function of this package
		case *ast.KeyValueExpr:
			ast.Inspect(n.Value, walk)
			return false // the name before the colon is a field's
		case *ast.Ident:
			if n.Obj == nil || n.Obj.Kind == ast.Fun { // not a variable of that name
				visit(n, module+"/"+s.pkg, n.Name)
			}
		}
		return true
	}
	for _, decl := range s.syntax.Decls {
		ast.Inspect(decl, walk)
	}
}
