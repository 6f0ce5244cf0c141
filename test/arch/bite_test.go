package arch

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sources creates a tree with the named files.
func sources(t *testing.T, files map[string]string) tree {
	t.Helper()
	var out tree
	for _, name := range slices.Sorted(maps.Keys(files)) {
		s, err := parse(name, []byte(files[name]))
		if err != nil {
			t.Fatal(err)
		}
		if s != nil {
			out = append(out, s)
		}
	}
	return out
}

// unusedPrograms are the complaints of checkPrograms about a tree without podrun's programs.
var unusedPrograms = slices.Sorted(maps.Keys(programs))

// TestArchitectureBites breaks each rule and expects exactly the listed complaints. A case without
// complaints shows allowed code.
func TestArchitectureBites(t *testing.T) {
	tests := []struct {
		name  string
		check func(tree) []string
		files map[string]string
		// for each expected complaint, in order, a part of its text
		want []string
	}{
		{"a noun imports a shared package, the engine a noun, a test anything", checkLayers, map[string]string{
			"dns/dns.go":         `package dns; import "github.com/podrun/podrun/internal/event"`,
			"run/reconcile/a.go": `package reconcile; import "github.com/podrun/podrun/dns"`,
			"dns/dns_test.go":    `package dns; import "github.com/podrun/podrun/run"`,
			"serve/serve.go":     `package serve; import ("github.com/podrun/podrun/run"; "github.com/podrun/podrun/serve/source")`,
		}, nil},
		{"nouns import nouns, and the reader of the host", checkLayers, map[string]string{
			"admission/a.go":   `package admission; import "github.com/podrun/podrun/host/discover"`,
			"dns/dns.go":       `package dns; import "github.com/podrun/podrun/sandbox"`,
			"volume/volume.go": `package volume; import m "github.com/podrun/podrun/manifest"`,
		}, []string{"admission may not import host/discover", "dns may not import sandbox", "volume may not import manifest"}},
		{"imports upwards", checkLayers, map[string]string{
			"host/facts.go":       `package host; import "github.com/podrun/podrun/host/discover"`,
			"host/discover/d.go":  `package discover; import "github.com/podrun/podrun/manifest"`,
			"internal/event/a.go": `package event; import "github.com/podrun/podrun/cri"`,
			"run/lifecycle/a.go":  `package lifecycle; import "github.com/podrun/podrun/run/observe"`,
			"run/observe/a.go":    `package observe; import "github.com/podrun/podrun/run/node"`,
			"run/reconcile/a.go":  `package reconcile; import "github.com/podrun/podrun/run"`,
			"run/run.go":          `package run; import "github.com/podrun/podrun/serve"`,
		}, []string{"host/discover may not import manifest", "host may not import host/discover", "internal/event may not", "run/lifecycle may not", "run/observe may not", "run/reconcile may not", "run may not import serve"}},
		{"cmd imports the engine's operations, and not its parts or a noun", checkLayers, map[string]string{
			"cmd/apply.go": `package cmd; import ("github.com/podrun/podrun/manifest"; "github.com/podrun/podrun/run"; "github.com/podrun/podrun/run/prepare")`,
			"cmd/a.go":     `package cmd; import "github.com/podrun/podrun/run/node"`,
			"cmd/b.go":     `package cmd; import "github.com/podrun/podrun/sandbox"`,
		}, []string{"cmd/a.go: cmd may not import run/node", "cmd/b.go: cmd may not import sandbox"}},
		{"podrun links what is for tests", checkLayers, map[string]string{
			"run/run.go": `package run; import "github.com/podrun/podrun/cri/critest"`,
		}, []string{"run may not import cri/critest"}},
		{"a directory and a package without a place", checkLayers, map[string]string{
			"dns/dns.go":         `package dns; import "github.com/podrun/podrun/weather"`,
			"run/wind/a.go":      `package wind`,
			"weather/weather.go": `package weather`,
		}, []string{"dns may not import weather", "run/wind has no place in the order of run", "weather/weather.go: its directory is not in the table"}},

		{"programs with literal arguments, and a tool", checkPrograms, map[string]string{
			"dns/a.go":      `package dns; import "os/exec"; func f(ctx context.Context) (c *exec.Cmd) { return exec.CommandContext(ctx, "ip", "link") }`,
			"dns/a_test.go": `package dns; import "os/exec"; func f(name string) { exec.Command(name) }`,
			"hack/a/a.go":   `package main; import "os/exec"; func f(name string) { exec.Command(name) }`,
		}, unusedPrograms},
		{"programs with variable arguments", checkPrograms, map[string]string{
			"dns/a.go": `package dns; import run "os/exec"; func f(name string) { run.Command("ls", name) }`,
			"dns/b.go": `package dns; import "os/exec"; var start = exec.Command; func g(name string) { _ = &exec.Cmd{Path: name} }`,
			"dns/c.go": `package dns; import "syscall"; func (t *T) h(argv []string) { syscall.Exec(argv[0], argv, nil) }`,
		}, append([]string{"dns/a.go:1: dns.f starts", "dns/b.go:1: dns.(a variable) starts", "dns/b.go:1: dns.g starts", "dns/c.go:1: dns.T.h starts"}, unusedPrograms...)},

		{"light imports", checkImports, map[string]string{
			"run/run.go":         `package run; import ("k8s.io/kubernetes/pkg/kubelet/qos"; "k8s.io/kubernetes/pkg/volume/util/subpath"; "k8s.io/cri-api/pkg/apis/runtime/v1")`,
			"dns/oracle_test.go": `package dns; import "k8s.io/kubernetes/pkg/kubelet/network/dns"`,
			"pins.go":            "//go:build pins\n\npackage main\n\nimport _ \"k8s.io/kubernetes/pkg/kubelet/cm\"",
		}, nil},
		{"heavy imports", checkImports, map[string]string{
			"a/a.go": `package a; import "k8s.io/kubernetes/pkg/kubelet/network/dns"`,
			"a/b.go": `package a; import "k8s.io/kubernetes/pkg/kubelet/cm/util"`,
			"a/c.go": `package a; import "k8s.io/kubernetes/pkg/kubelet/images"`,
			"a/d.go": `package a; import "k8s.io/kubernetes/pkg/kubelet/kuberuntime"`,
			"a/e.go": `package a; import "k8s.io/kubernetes/pkg/kubelet/lifecycle"`,
			"a/f.go": `package a; import _ "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"`,
			"a/g.go": `package a; import "k8s.io/kubernetes/pkg/volume/util"`,
			"a/h.go": `package a; import "k8s.io/client-go/kubernetes/scheme"`,
		}, []string{"a/a.go: ", "a/b.go: ", "a/c.go: ", "a/d.go: ", "a/e.go: ", "a/f.go: ", "a/g.go: ", "a/h.go: imports k8s.io/client-go/kubernetes/scheme: 11.6 MB"}},
		{"quantities", checkQuantities, map[string]string{
			"a/a.go":                     `package a; import "k8s.io/apimachinery/pkg/api/resource"; var least, q = resource.MustParse("1Mi"), resource.NewQuantity(1, "")`,
			"a/b.go":                     `package a; import "k8s.io/apimachinery/pkg/api/resource"; func f(s string) { resource.ParseQuantity(s) }`,
			"a/c.go":                     `package a; import k8s "k8s.io/apimachinery/pkg/api/resource"; func f(s string) { k8s.MustParse(s) }`,
			"a/d.go":                     `package a; import "k8s.io/apimachinery/pkg/api/resource"; var parse = resource.ParseQuantity`,
			"a/a_test.go":                `package a; import "k8s.io/apimachinery/pkg/api/resource"; func f(s string) { resource.ParseQuantity(s) }`,
			"internal/resource/parse.go": `package resource; import "k8s.io/apimachinery/pkg/api/resource"; func f(s string) { resource.ParseQuantity(s) }`,
		}, []string{"a/b.go:1: parses a quantity", "a/c.go:1:", "a/d.go:1:"}},
		{"globs", checkGlobs, map[string]string{
			"a/a.go":           `package a; import "path/filepath"; var names, err = filepath.Glob(dir + "/*.log")`,
			"a/b.go":           `package a; import ("io/fs"; fp "path/filepath"); var f, g, h = fs.Glob, fp.Glob, fp.Match`,
			"a/a_test.go":      `package a; import "path/filepath"; var names, err = filepath.Glob(dir + "/*.log")`,
			"cmd/cli/input.go": `package cli; import "path/filepath"; var names, err = filepath.Glob(typed)`,
		}, []string{"a/a.go:1: uses a path as a pattern", "a/b.go:1:"}},
		{"regular expressions of each start", checkPatterns, map[string]string{
			"a/a.go":      `package a; import ("regexp"; "sync"); var at = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("a") }); func f() { regexp.MustCompile("b") }`,
			"a/b.go":      `package a; import "regexp"; var b = regexp.MustCompile("b")`,
			"a/c.go":      `package a; import re "regexp"; var c = map[string]*re.Regexp{"c": re.MustCompile("c")}`,
			"a/a_test.go": `package a; import "regexp"; var t = regexp.MustCompile("t")`,
		}, []string{"a/b.go:1: each start compiles", "a/c.go:1:"}},
		{"a module for tests", checkImports, map[string]string{
			"cri/critest/ash/ash.go": `package ash; import "mvdan.cc/sh/v3/syntax"`,
			"container/hook/hook.go": `package hook; import "mvdan.cc/sh/v3/syntax"`,
		}, []string{"container/hook/hook.go: imports mvdan.cc/sh/v3/syntax: it is for tests only"}},
		{"cmd knows CRI", checkImports, map[string]string{
			"cmd/inspect/get.go": `package inspect; import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"`,
		}, []string{"cmd/inspect/get.go: imports k8s.io/cri-api/pkg/apis/runtime/v1: what the runtime is asked is pod logic"}},

		{"a package that is too large", checkSizes, map[string]string{
			"dns/a.go":            "package dns" + strings.Repeat("\n", maxPackage),
			"dns/a_test.go":       "package dns" + strings.Repeat("\n", maxPackage),
			"sandbox/a.go":        "package sandbox" + strings.Repeat("\n", maxPackage),
			"sandbox/b.go":        "package sandbox\n",
			"cri/critest/fake.go": "package critest" + strings.Repeat("\n", maxPackage+1),
		}, []string{"sandbox: 6001 lines"}},
		{"vague names", checkNames, map[string]string{
			"dns/dns.go":          `package dns`,
			"dns/util.go":         `package dns`,
			"dns/dns_helpers.go":  `package dns`,
			"dns/misc_test.go":    `package dns`,
			"common/answer.go":    `package common`,
			"internal/util/a.go":  `package helper`,
			"dns/uncommon.go":     `package dns`,
			"cgroup/utilities.go": `package cgroup`,
		}, []string{"common/answer.go", "dns/dns_helpers.go", "dns/misc_test.go", "dns/util.go", "internal/util/a.go"}},

		{"a doc comment in any file", checkDocs, map[string]string{
			"dns/dns.go":   "// Package dns resolves.\npackage dns",
			"dns/hosts.go": `package dns`,
		}, nil},
		{"no doc comment", checkDocs, map[string]string{
			"dns/dns.go": "// This is about the imports.\n\npackage dns",
		}, []string{"dns: the package has no doc comment"}},

		{"lengths at their limits, and in tests", lengths, map[string]string{
			"dns/dns.go":      "package dns\nfunc f() {" + strings.Repeat("\n", maxFunction-1) + "}" + strings.Repeat("\n", maxFile-maxFunction),
			"dns/dns_test.go": "package dns\nfunc f() {" + strings.Repeat("\n", 500) + "}",
		}, nil},
		{"lengths over their limits", lengths, map[string]string{
			"dns/dns.go":   "package dns\nfunc f() {" + strings.Repeat("\n", maxFunction) + "}",
			"dns/hosts.go": "package dns" + strings.Repeat("\n", maxFile+1),
		}, []string{"dns/dns.go:2: f: 61 lines, more than 60", "dns/hosts.go: 401 lines, more than 400"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { complains(t, tt.check(sources(t, tt.files)), tt.want) })
	}
}

// complains compares complaints with the expected parts.
func complains(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d complaints, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("complaint %q, want %q in it", got[i], want[i])
		}
	}
}

// TestAllowedBites checks that checkAllowed reports a cycle and an unused entry.
func TestAllowedBites(t *testing.T) {
	before := directories
	defer func() { directories = before }()
	directories = []directory{{name: "dns", may: []string{"run"}}, {name: "run", may: []string{"dns", "cri", "host/..."}}, {name: "host"}}
	complains(t, checkAllowed(sources(t, map[string]string{
		"dns/a.go": `package dns; import "github.com/podrun/podrun/run"`,
		"run/a.go": `package run; import ("github.com/podrun/podrun/dns"; "github.com/podrun/podrun/host/discover")`,
	})), []string{"dns: may import run, which is not above it", "run: does not import cri", "run: may import host/..., which is not above it"})
}

// TestPurityBites loads a small module with podrun's name, in which each case is a package. It
// loads all cases at once, because the Go command takes as long for one package as for all of them.
func TestPurityBites(t *testing.T) {
	tests := []struct {
		imports string // import paths, separated by spaces
		body    string // body of a function in a pure package
		want    string // the effect that the test must find; "" if the body is allowed
	}{
		{"time", `_ = time.Now()`, "time.Now"},
		{"time", `now := time.Now; _ = now`, "time.Now"},
		{"time", `var d time.Duration = 2 * time.Second; _ = time.Time{}.Add(d).After(time.Unix(0, 0))`, ""},
		{"os", `_, _ = os.ReadFile("/etc/hosts")`, "os.ReadFile"},
		{"os", `_ = os.Args`, "os.Args"},
		{"os", `var m os.FileMode; _, _, _, _ = os.O_RDONLY, os.ErrNotExist, os.IsNotExist(nil), m`, ""},
		{"os/exec", `_ = exec.Command("true")`, "exec.Command"},
		{"path/filepath", `_, _ = filepath.EvalSymlinks(filepath.Join("a", "b"))`, "filepath.EvalSymlinks"},
		{"net", `_, _ = net.Dial("tcp", "x")`, "net.Dial"},
		{"net", `var ip net.IP = net.ParseIP("::"); _, _ = net.JoinHostPort("h", "1"), ip`, ""},
		{"net/http", `_, _ = http.Get("https://host")`, "http.Get"},
		{"net/http", `_, _ = http.StatusOK, http.Header{}.Get("a")`, ""},
		{"crypto/rand", `_, _ = rand.Read(nil)`, "rand.Read"},
		{"syscall", `_ = syscall.Kill(1, syscall.SIGTERM)`, "syscall.Kill"},
		{"context", `_, stop := context.WithTimeout(context.Background(), 1); stop()`, "context.WithTimeout"},
		{"fmt", `fmt.Println("hello")`, "fmt.Println"},
		{"fmt", `_ = fmt.Sprintf("%d", 1)`, ""},
		{"", `go func() {}()`, "a goroutine"},
		{"sync", `var wg sync.WaitGroup; wg.Go(func() {})`, "a goroutine"},
		{"github.com/podrun/podrun/volume", `volume.Plan()`, ""},
		{"github.com/podrun/podrun/volume", `volume.Make()`, "dns.f → volume.Make → volume.set.add uses os.Mkdir"},
		{"github.com/podrun/podrun/volume", `_ = volume.Make`, "volume.set.add uses os.Mkdir"},
		{"github.com/podrun/podrun/cri", `var c *cri.Client; c.Stop()`, "cri.Client.Stop"},
		{"github.com/podrun/podrun/cri", `var c *cri.Client; c.Images.Pull()`, "cri.Images.Pull"},
	}
	files := map[string]string{
		"go.mod":           "module github.com/podrun/podrun\ngo 1.26\n",
		"volume/volume.go": "package volume\nimport \"os\"\nfunc Plan() {}\nfunc Make() { (&set{}).add() }\ntype set struct{}\nfunc (*set) add() { _ = os.Mkdir(\"a\", 0) }\n",
		"cri/cri.go":       "package cri\ntype Client struct{ Images Images }\ntype Images struct{}\nfunc (*Client) Stop() {}\nfunc (Images) Pull() {}\n",
	}
	pure := func(i int) string { return fmt.Sprintf("case%d/dns", i) }
	for i, tt := range tests {
		imports := ""
		if tt.imports != "" {
			imports = "import \"" + tt.imports + "\"\n"
		}
		files[pure(i)+"/dns.go"] = "package dns\n" + imports + "func f() {\n" + strings.ReplaceAll(tt.body, "; ", "\n") + "\n}\n"
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	calls := loadCalls(t, dir, "./...")
	for i, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			var want []string
			if tt.want != "" {
				want = []string{tt.want}
			}
			complains(t, calls.check([]string{pure(i)}, nil), want)
		})
	}
}
