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

// The architecture (ARCHITECTURE.md) as rules over the source: layers, purity
// of planning, names, docs, sizes. They read the syntax only, so that they take
// no build. Each rule is shown to bite in arch_bite_test.go.

// module is the import path of everything here.
const module = "github.com/podrun/podrun"

// A rule complains about the tree: one line a complaint, "where: what".
type rule struct {
	name  string
	check func(tree) []string
}

var rules = []rule{
	{"layers", checkLayers},
	{"allowed", checkAllowed},
	{"imports", checkImports},
	{"purity", checkPurity},
	{"quantities", checkQuantities},
	{"names", checkNames},
	{"docs", checkDocs},
	{"sizes", sizes(long)},
}

func TestArchitecture(t *testing.T) {
	root := readTree(t, ".")
	if len(root) < 100 {
		t.Fatalf("only %d files were found: the rules would hold for nothing", len(root))
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
	name   string // run/lifecycle/next.go
	pkg    string // the directory: run/lifecycle; "." for main.go's
	test   bool   // *_test.go
	lines  int
	syntax *ast.File
	set    *token.FileSet
}

// tree is every Go file that is built on Linux, in the order of names.
type tree []*source

// parse parses one file; nil if it is not for an ordinary build.
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

// built reports whether the file's //go:build line holds in an ordinary build.
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

// at names a place in the file.
func (s *source) at(n ast.Node) string {
	return s.name + ":" + strconv.Itoa(s.set.Position(n.Pos()).Line)
}

// imports gives the file's imports by the names that it uses for them.
func (s *source) imports() map[string]string {
	out := map[string]string{}
	for _, spec := range s.syntax.Imports {
		full, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser would have refused it
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

// own gives the part of an import path that names a package of podrun's.
func own(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// layer is what a package is for the others.
type layer string

const (
	leaf    layer = "leaf"    // shapes and arithmetic that all share
	noun    layer = "noun"    // one part of a pod: plan it, make it, remove it
	reader  layer = "reader"  // reads what plans are made from
	engine  layer = "engine"  // joins the nouns, each package those that it lists
	facade  layer = "facade"  // the engine's operations, as commands call them
	decider layer = "decider" // the engine's logic: pure, all of it
	planner layer = "planner" // joins the nouns' plans: pure, all of it
	keeper  layer = "keeper"  // what the engine keeps on disk
	command layer = "command" // flags to one call, and what comes back to text
	entry   layer = "entry"   // main
	support layer = "support" // what tests and developers run; never linked into podrun
)

// below says which layers each may import; single packages besides are in
// packages.
var below = map[layer][]layer{
	leaf:    {},
	noun:    {leaf},
	reader:  {leaf},
	decider: {leaf},
	planner: {leaf, noun, decider},
	keeper:  {leaf},
	engine:  {leaf, decider, keeper},
	facade:  {leaf, reader, decider, planner, keeper, engine},
	command: {leaf, facade, decider, planner},
	entry:   {command},
	support: {leaf, noun, reader, decider, planner, keeper, engine, facade, command, support},
}

// packages has every package with its layer. May are those that it imports
// beside the layers below it, each of which takes a reason.
var packages = map[string]struct {
	layer layer
	may   []string
	why   string
}{
	".":             {entry, []string{"heap"}, "signals to a context, the context to cmd; heap is set before all else"},
	"heap":          {entry, nil, "of the process as a whole: the pace of garbage collection"},
	"cmd":           {command, []string{"manifest"}, "reads the files that a command names; all else about pods it asks of run"},
	"run":           {facade, []string{"admission", "cgroup", "cni", "copytar", "doctor", "embedded", "imagegc", "imagepull", "imagepull/archive", "manifest", "nodeapi", "source"}, "one operation a file; files are copied without a worker; those on images, on sources, on leftovers and on the host as a whole concern no pod, and need no worker; what the HTTP API shows is read by no worker either"},
	"run/observe":   {engine, []string{"imagepull"}, "reads and waits: what acts (node, reconcile) is above it, so that reading cannot act; why pulls failed is read by imagepull"},
	"run/node":      {engine, []string{"run/observe", "run/prepare", "host/discover", "admission", "cgroup", "imagepull", "imagepull/auth", "manifest", "volume"}, "admission and reservations come before any pod is worked on: it knows no worker; what holds the cgroup of a pod is read by the noun"},
	"run/reconcile": {engine, []string{"run/node", "run/observe", "run/prepare", "admission", "cgroup", "container", "dns", "hook", "cni", "imagepull", "manifest", "probe", "sandbox", "volume"}, "the only place where the nouns of a pod meet: it passes values from one to the next"},
	"run/serve":     {engine, []string{"run/node", "run/observe", "run/prepare", "run/reconcile", "host/discover", "cgroup", "eviction", "imagegc", "imagepull", "manifest", "shutdown", "source", "volume"}, "a worker for each of many pods: it is above all that one worker needs; pressure and images concern all of them, and what pods use is read by the nouns"},
	"run/prepare":   {planner, nil, "plans, replacements and refusals for the pods of a command"},
	"run/store":     {keeper, []string{"manifest", "volume", "host/discover"}, "a checkpoint is a manifest in a pod's directory, and facts are read off it too"},
	"run/lifecycle": {decider, nil, "what to do next, status, goals and exit codes: no file of it may look at the world"},
	"manifest":      {noun, nil, "bytes to objects; knows of no other noun, so that it can be used alone"},

	"admission": {noun, nil, "a pod and the host's facts to problems"},
	"cgroup":    {noun, nil, "the pod's control groups"},
	"container": {noun, nil, "what the runtime is told of a container; mounts and addresses come in as values"},
	"dns":       {noun, nil, "the pod's names and resolver"},
	"doctor":    {noun, nil, "facts to what is wrong with the host; what admission says comes in as a value"},
	"embedded":  {noun, nil, "the runtime that podrun brings: it knows no pods; that there are some comes in as values"},
	"eviction":  {noun, nil, "what the host and its pods use to pressure and to the pod that must go"},
	"hook":      {noun, nil, "lifecycle hooks; the container's exec comes in as a function"},
	"shutdown":  {noun, nil, "which pods stop when, by the periods of the settings"},
	"imagegc":   {noun, nil, "which images nothing uses; what is in use comes in as a value"},
	"imagepull": {noun, []string{"imagepull/auth"}, "the pod's images; which credentials there are is its own part, auth"},

	"imagepull/auth":    {noun, nil, "credentials for registries; knows Secrets and files, no pods"},
	"copytar":           {noun, nil, "tar streams; knows no pods"},
	"imagepull/archive": {noun, nil, "images in files, and containerd's way to take them; knows no pods"},

	"cni":     {noun, nil, "what network plugins leave of sandboxes that are gone; which those are comes in as values"},
	"nodeapi": {noun, nil, "the HTTP API of a supervisor; what it shows comes in as functions"},
	"probe":   {noun, nil, "startup, readiness and liveness; the container's exec comes in as a function"},
	"sandbox": {noun, nil, "the pod's sandbox; DNS and the cgroup's name come in as values"},
	"source":  {noun, []string{"manifest"}, "directories of manifests to the pods that they ask for; files become objects by manifest alone"},
	"volume":  {noun, nil, "what the pod has on the host's disk"},

	"host/discover": {reader, nil, "the only reader of a plan's inputs"},

	"problem":  {leaf, nil, "how every package says that something is wrong"},
	"event":    {leaf, nil, "what happened to a pod: told by nouns, rendered by cmd"},
	"trace":    {leaf, nil, "when a command did what: noted where it is done, shown by cmd"},
	"identity": {leaf, nil, "a pod's labels and paths, on which all parts must agree"},
	"host":     {leaf, nil, "the host's facts as data, so that plans can be replayed"},
	"resource": {leaf, nil, "the arithmetic that sandbox, container, cgroup and admission share"},
	"cri":      {leaf, []string{"faultpoint"}, "the runtime's client; knows no pods"},

	"faultpoint": {leaf, nil, "where the crash sweep kills podrun; nothing in an ordinary build"},
	"hostfile":   {leaf, []string{"faultpoint"}, "files that others can write are read and replaced by one set of rules"},
	"fielddoc":   {leaf, nil, "texts of the API's own types, which need no pod"},
	"podlog":     {leaf, []string{"hostfile"}, "the CRI's log format; knows files, not pods"},
	"nodeconfig": {leaf, []string{"identity", "problem", "hostfile", "resource"}, "settings give the paths of identity, a wrong file is a problem, and settings are quantities"},
	"systemd":    {leaf, []string{"hostfile", "problem"}, "the unit and the messages of a service; knows files and systemctl, not pods"},

	"embedded/archive": {leaf, nil, "the bytes of the runtime that podrun-bundle carries; what is done with them is its importers'"},
	"sbom":             {leaf, nil, "what podrun is made of, embedded when it is built"},

	"volume/safepath": {leaf, nil, "file operations in directories that containers write to; knows paths and descriptors, not pods"},

	"cri/critest":     {support, nil, "a runtime for tests"},
	"cri/critest/ash": {support, nil, "the shell in that runtime's containers"},
	"volume/treetest": {support, nil, "file trees for the tests of volume and volume/safepath"},
}

// layerOf finds a package's layer. What is below hack and test is support, and what is
// below bundle is another module, never linked into podrun.
func layerOf(pkg string) layer {
	if top, _, _ := strings.Cut(pkg, "/"); top == "hack" || top == "test" || top == "bundle" {
		return support
	}
	return packages[pkg].layer
}

// checkLayers follows every import of podrun's own. Tests may import what they
// like: they are not linked.
func checkLayers(all tree) []string {
	var out []string
	for _, s := range all {
		from := layerOf(s.pkg)
		if from == "" {
			out = append(out, s.name+": package "+s.pkg+" is in no layer: give it one in arch_test.go, with the reason")
			continue
		}
		if s.test {
			continue
		}
		for _, full := range s.imports() {
			to, ok := own(full)
			if !ok || slices.Contains(below[from], layerOf(to)) || slices.Contains(packages[s.pkg].may, to) {
				continue
			}
			out = append(out, s.name+": "+string(from)+" "+s.pkg+" imports "+string(layerOf(to))+" "+to+": pass the value in, or give the reason in arch_test.go")
		}
	}
	return sorted(out)
}

// checkAllowed finds imports that packages allows and no file has: the table
// says what each package needs, no more.
func checkAllowed(all tree) []string {
	unused := map[string]string{} // complaints, by both packages
	for _, s := range all {
		for _, to := range packages[s.pkg].may {
			unused[s.pkg+" "+to] = s.pkg + ": does not import " + to + ": take it off the table in arch_test.go"
		}
	}
	for _, s := range all {
		for _, full := range s.imports() {
			if to, ok := own(full); ok && !s.test {
				delete(unused, s.pkg+" "+to)
			}
		}
	}
	return slices.Sorted(maps.Values(unused))
}

// banned are import paths, and all below them, that must not be linked.
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

// light are packages below a banned path that may be imported all the same.
var light = []string{"k8s.io/kubernetes/pkg/volume/util/subpath"}

// bannedFor are import paths, and all below them, that one package must not
// import.
var bannedFor = map[string][]struct{ path, why string }{
	"cmd": {{"k8s.io/cri-api", "what the runtime is asked is pod logic: package run's"}},
}

// forTests is a module that only support may import, so that it is not linked.
const forTests = "mvdan.cc/sh/v3"

// checkImports finds imports that cost too much, or that belong elsewhere.
func checkImports(all tree) []string {
	var out []string
	for _, s := range all {
		if s.test {
			continue
		}
		for _, full := range s.imports() {
			if within(full, forTests) && layerOf(s.pkg) != support {
				out = append(out, s.name+": imports "+full+": it is for tests only")
			}
			for _, b := range slices.Concat(banned, bannedFor[s.pkg]) {
				if within(full, b.path) && !slices.Contains(light, full) {
					out = append(out, s.name+": imports "+full+": "+b.why)
				}
			}
		}
	}
	return sorted(out)
}

func within(full, prefix string) bool { return full == prefix || strings.HasPrefix(full, prefix+"/") }
