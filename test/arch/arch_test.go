package arch

import (
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The architecture (ARCHITECTURE.md) as rules on the syntax of the source: layers, imports, names
// and documentation. The rules do not require a build. bite_test.go checks that each rule finds
// violations.

// module is the import path of this module.
const module = "github.com/podrun/podrun"

// A rule checks the tree, and returns its complaints in the format "where: what".
type rule struct {
	name  string
	check func(tree) []string
}

var rules = []rule{
	{"layers", checkLayers},
	{"allowed", checkAllowed},
	{"imports", checkImports},
	{"quantities", checkQuantities},
	{"programs", checkPrograms},
	{"globs", checkGlobs},
	{"patterns", checkPatterns},
	{"names", checkNames},
	{"docs", checkDocs},
	{"sleeps", checkSleeps},
	{"sizes", checkSizes},
}

func TestArchitecture(t *testing.T) {
	root := readTree(t, ".")
	if len(root) < 100 {
		t.Fatalf("only %d files were found: the rules would check almost nothing", len(root))
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, complaint := range r.check(root) {
				t.Error(complaint)
			}
		})
	}
}

// source is one Go file.
type source struct {
	name string // such as run/lifecycle/next.go
	// the directory, such as run/lifecycle; "." for main.go
	pkg    string
	test   bool // *_test.go
	lines  int
	syntax *ast.File
	set    *token.FileSet
}

// tree contains every Go file that is built on Linux, sorted by name.
type tree []*source

// parse parses one file. It returns nil if the file is not part of an ordinary build.
func parse(name string, text []byte) (*source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil || !built(file) {
		return nil, err
	}
	return &source{
		name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
		lines: strings.Count(string(text), "\n"), syntax: file, set: set,
	}, nil
}

// built reports whether the file's //go:build line is true in an ordinary build.
func built(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) || c.Pos() > file.Package {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			return err == nil && expr.Eval(func(tag string) bool { return tag == "linux" || tag == "unix" })
		}
	}
	return true
}

func readTree(t *testing.T, dir string) tree {
	t.Helper()
	var out tree
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		base := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (base == "testdata" || base == "bin" || base != "." && strings.HasPrefix(base, ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(name), text)
		if s != nil {
			out = append(out, s)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// at returns a position in the file.
func (s *source) at(n ast.Node) string {
	return s.name + ":" + strconv.Itoa(s.set.Position(n.Pos()).Line)
}

// imports returns the file's imports by their local names.
func (s *source) imports() map[string]string {
	out := map[string]string{}
	for _, spec := range s.syntax.Imports {
		full, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			// the parser would have rejected the file
			continue
		}
		name := path.Base(full)
		if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(full))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		out[name] = full
	}
	return out
}

// own returns the part of an import path that names a package of podrun; or "" for other paths.
func own(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// directory is a directory of podrun and the packages that its packages may import.
type directory struct {
	name string
	may  []string // "cri" means only that package; "host/..." includes all packages below it
	// inside lists the directory's packages if they are ordered. Each package may import the
	// preceding ones.
	inside []string
	why    string
}

// directories is the architecture. No directory imports a directory below it in this table, so
// cycles are impossible. The directories from admission to imagepull, which ARCHITECTURE.md
// calls nouns, do not import each other: package run passes values from one to the next.
var directories = []directory{
	{"internal", nil, nil, "shared, and without a meaning of its own"},
	{"cri", []string{"internal/..."}, nil, "the runtime's client; knows no pods"},
	{"host", []string{"cri", "internal/..."}, []string{"host", "host/nodeconfig", "host/discover", "host/doctor"}, "the host's facts as data, its settings, the only reader of a plan's inputs, and what is wrong with a host"},
	{"manifest", []string{"internal/..."}, nil, "files to objects"},
	{"admission", []string{"host", "host/nodeconfig", "internal/..."}, nil, "may this host run a pod: facts to problems"},
	{"cgroup", []string{"host", "host/nodeconfig", "internal/..."}, nil, "a pod's control groups"},
	{"dns", []string{"host", "internal/..."}, nil, "a pod's names and resolver"},
	{"sandbox", []string{"cri", "host", "host/nodeconfig", "internal/..."}, nil, "a pod's sandbox, and what network plugins leave of one"},
	{"container", []string{"cri", "host", "host/nodeconfig", "internal/..."}, nil, "a container, its hooks, probes and log, and copying to and from it"},
	{"volume", []string{"internal/..."}, nil, "what a pod has on the host's disk"},
	{"imagepull", []string{"cri", "internal/..."}, nil, "images: pulls, credentials, archives"},
	{"service", nil, nil, "Services on one host: virtual IPs, endpoints, names, the table of rules"},
	{"embedded", []string{"cri", "internal/..."}, nil, "the runtime that podrun-bundle contains; knows no pods"},
	{"run", []string{"admission", "cgroup", "container/...", "cri", "dns", "embedded/...", "host/...", "imagepull/...", "internal/...", "manifest/...", "sandbox/...", "service", "volume"},
		[]string{"run/lifecycle", "run/store", "run/prepare", "run/observe", "run/node", "run/pod", "run/lease", "run/stop", "run/start", "run/reconcile", "run/lookup", "run/imagestore", "run/ownruntime", "run/access", "run/servicesync", "run"}, "the engine, where the nouns of a pod meet"},
	{"serve", []string{"admission", "cgroup", "container/podlog", "cri", "host/...", "imagepull", "internal/...", "manifest", "manifest/input", "run/...", "volume"}, nil, "supervision: what stays"},
	{"cmd", []string{"container/podlog", "cri", "embedded/archive", "host", "host/nodeconfig", "internal/...", "manifest/...", "run", "run/access", "run/imagestore", "run/lifecycle", "run/lookup", "run/ownruntime", "run/prepare", "run/servicesync", "serve", "serve/cluster", "serve/systemd"}, []string{"cmd/exit", "cmd/view", "cmd/apikind", "cmd/grammar", "cmd/config", "cmd/cli", "cmd/inspect", "cmd/images", "cmd/inside", "cmd/pods", "cmd/change", "cmd/system", "cmd/complete", "cmd", "cmd/podrun-node"}, "flags to one call of run or serve, and its result to text"},
	{".", []string{"cmd", "internal/heap", "internal/rootless/entry"}, nil, "main.go"},
}

// support are directories and packages that are never linked into podrun, so they may import
// anything.
var support = []string{"hack", "test", "embedded/bundle", "cri/critest", "internal/treetest"}

func isSupport(pkg string) bool {
	return slices.ContainsFunc(support, func(s string) bool { return pkg == s || strings.HasPrefix(pkg, s+"/") })
}

// place returns the index of a package's directory in the table, or -1.
func place(pkg string) int {
	return slices.IndexFunc(directories, func(d directory) bool { return d.name == top(pkg) })
}

// top returns the directory of a package.
func top(pkg string) string {
	name, _, _ := strings.Cut(pkg, "/")
	return name
}

// permits reports whether packages of a directory may import a package.
func (d directory) permits(from, to string) bool {
	if top(to) != d.name {
		return slices.ContainsFunc(d.may, func(m string) bool {
			below, all := strings.CutSuffix(m, "/...")
			return to == below || all && strings.HasPrefix(to, below+"/")
		})
	}
	return d.inside == nil || slices.Index(d.inside, to) < slices.Index(d.inside, from)
}

// checkLayers checks every import of one podrun package by another against the table. Tests may
// import any package, because they are not linked.
func checkLayers(all tree) []string {
	var out []string
	for _, s := range all {
		if s.test || isSupport(s.pkg) {
			continue
		}
		at := place(s.pkg)
		if at < 0 {
			out = append(out, s.name+": its directory is not in the table: add it to test/arch/arch_test.go, with the reason")
			continue
		}
		if d := directories[at]; d.inside != nil && !slices.Contains(d.inside, s.pkg) {
			out = append(out, s.name+": package "+s.pkg+" has no place in the order of "+d.name)
		}
		for _, full := range s.imports() {
			if to, ok := own(full); ok && (isSupport(to) || !directories[at].permits(s.pkg, to)) {
				out = append(out, s.name+": "+s.pkg+" may not import "+to+": pass the value in")
			}
		}
	}
	return sorted(out)
}

// checkAllowed finds two kinds of mistakes in the table: permitted imports that no file uses, and
// directories that are permitted to import a directory below them.
func checkAllowed(all tree) []string {
	var out []string
	used := map[string]bool{}
	for _, s := range all {
		for _, full := range s.imports() {
			if to, ok := own(full); ok && !s.test && place(s.pkg) >= 0 {
				used[directories[place(s.pkg)].name+" "+to] = true
			}
		}
	}
	for i, d := range directories {
		for _, m := range d.may {
			below, tree := strings.CutSuffix(m, "/...")
			if place(below) >= i {
				out = append(out, d.name+": may import "+m+", which is not above it in the table")
			}
			if !used[d.name+" "+below] && !(tree && slices.ContainsFunc(slices.Collect(maps.Keys(used)), func(u string) bool { return strings.HasPrefix(u, d.name+" "+below+"/") })) {
				out = append(out, d.name+": does not import "+m+": remove it from the table in test/arch/arch_test.go")
			}
		}
	}
	return sorted(out)
}

// banned are import paths that must not be linked. Each includes all paths below it.
var banned = []struct{ path, why string }{
	{"k8s.io/kubernetes/pkg/kubelet/network/dns", "15 MB or more; dns does its work"},
	{"k8s.io/kubernetes/pkg/kubelet/cm", "15 MB or more; cgroup does its work"},
	{"k8s.io/kubernetes/pkg/kubelet/images", "15 MB or more; imagepull does its work"},
	{"k8s.io/kubernetes/pkg/kubelet/kuberuntime", "28 MB; run/reconcile does its work"},
	{"k8s.io/kubernetes/pkg/kubelet/lifecycle", "15 MB or more; hook and admission do its work"},
	{"k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1", "15 MB or more; nodeconfig reads k8s.io/kubelet's types"},
	{"k8s.io/kubernetes/pkg/volume/util", "15 MB or more; volume does its work"},
	{"k8s.io/client-go/kubernetes/scheme", "11.6 MB: every kind that there is; manifest names those that it reads"},
}

// light are packages below a banned path that podrun may import anyway.
var light = []string{"k8s.io/kubernetes/pkg/volume/util/subpath"}

// bannedFor are import paths that the packages of a directory must not import. Each includes all paths below
// it.
var bannedFor = map[string][]struct{ path, why string }{
	"cmd": {
		{"k8s.io/cri-api", "what the runtime is asked is pod logic: package run's"},
		{module + "/serve/cluster", "podrun links no client of an API server: only cmd/podrun-node does"},
	},
}

// bannedIn returns the paths of bannedFor for a package. podrun-node is a program of its own.
func bannedIn(pkg string) []struct{ path, why string } {
	if pkg == "cmd/podrun-node" {
		return nil
	}
	return bannedFor[top(pkg)]
}

// forTests is a module that only packages in support may import, so that it is not linked.
const forTests = "mvdan.cc/sh/v3"

// checkImports finds imports that are too expensive, or that only other packages may use.
func checkImports(all tree) []string {
	var out []string
	for _, s := range all {
		if s.test {
			continue
		}
		for _, full := range s.imports() {
			if within(full, forTests) && !isSupport(s.pkg) {
				out = append(out, s.name+": imports "+full+": it is for tests only")
			}
			for _, b := range slices.Concat(banned, bannedIn(s.pkg)) {
				if within(full, b.path) && !slices.Contains(light, full) {
					out = append(out, s.name+": imports "+full+": "+b.why)
				}
			}
		}
	}
	return sorted(out)
}

func within(full, prefix string) bool { return full == prefix || strings.HasPrefix(full, prefix+"/") }
