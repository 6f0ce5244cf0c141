package arch

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// sources makes a tree of files by their names.
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

// TestArchitectureBites breaks each rule and expects exactly the complaints.
// A test without any shows what is allowed.
func TestArchitectureBites(t *testing.T) {
	tests := []struct {
		name  string
		check func(tree) []string
		files map[string]string
		want  []string // each a part of one complaint, in order
	}{
		{"a noun imports a leaf, the engine a noun, a test anything", checkLayers, map[string]string{
			"dns/dns.go":         `package dns; import "github.com/podrun/podrun/internal/event"`,
			"run/reconcile/a.go": `package reconcile; import "github.com/podrun/podrun/dns"`,
			"dns/dns_test.go":    `package dns; import "github.com/podrun/podrun/run"`,
		}, nil},
		{"a noun imports a noun", checkLayers, map[string]string{
			"dns/dns.go": `package dns; import "github.com/podrun/podrun/sandbox"`,
		}, []string{"dns/dns.go: noun dns imports noun sandbox:"}},
		{"a noun imports manifest", checkLayers, map[string]string{
			"volume/volume.go": `package volume; import m "github.com/podrun/podrun/manifest"`,
		}, []string{"imports noun manifest:"}},
		{"a noun imports the reader", checkLayers, map[string]string{
			"admission/a.go": `package admission; import "github.com/podrun/podrun/host/discover"`,
		}, []string{"imports reader host/discover:"}},
		{"a leaf imports a noun, run and cmd", checkLayers, map[string]string{
			"internal/event/a.go": `package event; import "github.com/podrun/podrun/container/hook"`,
			"internal/event/b.go": `package event; import "github.com/podrun/podrun/run"`,
			"internal/event/c.go": `package event; import "github.com/podrun/podrun/cmd"`,
		}, []string{"imports noun hook:", "imports facade run:", "imports command cmd:"}},
		{"a leaf imports a leaf without a reason", checkLayers, map[string]string{
			"internal/event/event.go": `package event; import "github.com/podrun/podrun/internal/problem"`,
		}, []string{"leaf event imports leaf problem:"}},
		{"the reader imports a noun", checkLayers, map[string]string{
			"host/discover/d.go": `package discover; import "github.com/podrun/podrun/manifest"`,
		}, []string{"reader host/discover imports noun manifest:"}},
		{"run imports cmd", checkLayers, map[string]string{
			"run/run.go": `package run; import "github.com/podrun/podrun/cmd"`,
		}, []string{"facade run imports command cmd:"}},
		{"cmd imports manifest, and no other noun", checkLayers, map[string]string{
			"cmd/apply.go": `package cmd; import ("github.com/podrun/podrun/manifest"; "github.com/podrun/podrun/run"; "github.com/podrun/podrun/sandbox")`,
		}, []string{"command cmd imports noun sandbox:"}},
		{"the engine below the façade, each package what it needs", checkLayers, map[string]string{
			"run/run.go":         `package run; import ("github.com/podrun/podrun/run/reconcile"; "github.com/podrun/podrun/run/store")`,
			"run/reconcile/a.go": `package reconcile; import ("github.com/podrun/podrun/run/node"; "github.com/podrun/podrun/run/observe")`,
			"run/node/a.go":      `package node; import "github.com/podrun/podrun/run/observe"`,
			"cmd/apply.go":       `package cmd; import ("github.com/podrun/podrun/run"; "github.com/podrun/podrun/run/prepare"; "github.com/podrun/podrun/run/lifecycle")`,
		}, nil},
		{"the engine upwards, nouns that a part does not join, and cmd past the façade", checkLayers, map[string]string{
			"run/observe/a.go":   `package observe; import "github.com/podrun/podrun/run/node"`,
			"run/observe/b.go":   `package observe; import "github.com/podrun/podrun/run/reconcile"`,
			"run/observe/c.go":   `package observe; import "github.com/podrun/podrun/volume"`,
			"run/node/a.go":      `package node; import "github.com/podrun/podrun/run/reconcile"`,
			"run/reconcile/a.go": `package reconcile; import "github.com/podrun/podrun/run"`,
			"run/run.go":         `package run; import "github.com/podrun/podrun/sandbox"`,
			"run/lifecycle/a.go": `package lifecycle; import "github.com/podrun/podrun/run/observe"`,
			"cmd/a.go":           `package cmd; import "github.com/podrun/podrun/run/node"`,
			"cmd/b.go":           `package cmd; import "github.com/podrun/podrun/run/observe"`,
			"cmd/c.go":           `package cmd; import "github.com/podrun/podrun/run/reconcile"`,
			"cmd/d.go":           `package cmd; import "github.com/podrun/podrun/run/store"`,
		}, []string{"cmd/a.go", "cmd/b.go", "cmd/c.go", "cmd/d.go", "run/lifecycle/a.go", "run/node/a.go: engine run/node imports engine run/reconcile:",
			"run/observe/a.go", "run/observe/b.go", "run/observe/c.go: engine run/observe imports noun volume:", "run/reconcile/a.go: engine run/reconcile imports facade run:", "run/run.go"}},
		{"an import that a reason allows and no file has", checkAllowed, map[string]string{
			"run/store/a.go":      `package store; import ("github.com/podrun/podrun/manifest"; "github.com/podrun/podrun/volume")`,
			"run/store/a_test.go": `package store; import "github.com/podrun/podrun/host/discover"`,
		}, []string{"run/store: does not import host/discover:"}},
		{"podrun links what is for tests", checkLayers, map[string]string{
			"run/run.go": `package run; import "github.com/podrun/podrun/cri/critest"`,
		}, []string{"imports support cri/critest:"}},
		{"a package without a layer", checkLayers, map[string]string{
			"weather/weather.go": `package weather`,
		}, []string{"package weather is in no layer"}},
		{"an import of such a package", checkLayers, map[string]string{
			"dns/dns.go": `package dns; import "github.com/podrun/podrun/weather"`,
		}, []string{"imports  weather:"}},

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
		{"a module for tests", checkImports, map[string]string{
			"cri/critest/ash/ash.go": `package ash; import "mvdan.cc/sh/v3/syntax"`,
			"container/hook/hook.go": `package hook; import "mvdan.cc/sh/v3/syntax"`,
		}, []string{"container/hook/hook.go: imports mvdan.cc/sh/v3/syntax: it is for tests only"}},
		{"cmd knows CRI", checkImports, map[string]string{
			"cmd/get.go": `package cmd; import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"`,
		}, []string{"cmd/get.go: imports k8s.io/cri-api/pkg/apis/runtime/v1: what the runtime is asked is pod logic"}},

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

		{"sizes at their limits, and in tests", sizes(nil), map[string]string{
			"dns/dns.go":      "package dns\nfunc f() {" + strings.Repeat("\n", maxFunction-1) + "}" + strings.Repeat("\n", maxFile-maxFunction),
			"dns/dns_test.go": "package dns\nfunc f() {" + strings.Repeat("\n", 500) + "}",
		}, nil},
		{"sizes over their limits", sizes(nil), map[string]string{
			"dns/dns.go":   "package dns\nfunc f() {" + strings.Repeat("\n", maxFunction) + "}",
			"dns/hosts.go": "package dns" + strings.Repeat("\n", maxFile+1),
		}, []string{"dns/dns.go:2: f: 61 lines, more than 60", "dns/hosts.go: 401 lines, more than 400"}},
		{"exceptions, of which one is over", sizes(map[string]string{"dns/dns.go f": "a table", "dns/hosts.go": "was long"}), map[string]string{
			"dns/dns.go":   "package dns\nfunc f() {" + strings.Repeat("\n", maxFunction) + "}",
			"dns/hosts.go": "package dns",
		}, []string{"dns/hosts.go: is not too long"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { complains(t, tt.check(sources(t, tt.files)), tt.want) })
	}
}

// complains compares complaints with the parts that are wanted.
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

// TestPurityBites puts one line into a function of a planning file.
func TestPurityBites(t *testing.T) {
	tests := []struct {
		imports string // "name path", separated by commas
		body    string
		want    string // what is used, separated by blanks; empty: allowed
	}{
		{`"time"`, `_ = time.Now(); now := time.Now; _ = now; <-time.After(1)`, "time.Now time.Now time.After"},
		{`clock "time"`, `_ = clock.Now()`, "time.Now"},
		{`"time"`, `var d time.Duration = 2 * time.Second; _ = time.Time{}.Add(d); _ = time.Unix(0, 0)`, ""},
		{`"time"`, `time := x{}; _ = time.Now()`, ""},
		{`"os"`, `os.ReadFile("/etc/hosts"); _ = os.Getenv("HOME"); _ = os.Args; _ = os.Stderr`, "os.ReadFile os.Getenv os.Args os.Stderr"},
		{`"os"`, `var m os.FileMode; _ = os.O_RDONLY; _ = os.ErrNotExist; _ = os.IsNotExist(nil); _ = m`, ""},
		{`"os/exec"`, `exec.Command("true")`, "exec.Command"},
		{`"path/filepath"`, `filepath.EvalSymlinks("/x"); _ = filepath.Join("a", "b")`, "filepath.EvalSymlinks"},
		{`"net"`, `net.Dial("tcp", "x"); net.LookupHost("x"); net.InterfaceAddrs(); var r net.Resolver; _ = r`, "net.Dial net.LookupHost net.InterfaceAddrs net.Resolver"},
		{`"net"`, `var ip net.IP = net.ParseIP("::"); _ = net.JoinHostPort("h", "1"); _ = ip`, ""},
		{`"net/http"`, `http.Get("https://host"); c := http.Client{}; _ = c`, "http.Get http.Client"},
		{`"net/http"`, `_ = http.StatusOK; _ = http.Header{}; _ = http.CanonicalHeaderKey("a")`, ""},
		{`"math/rand/v2"`, `_ = rand.Int()`, "v2.Int"},
		{`"crypto/rand"`, `rand.Read(nil)`, "rand.Read"},
		{`"k8s.io/apimachinery/pkg/util/uuid"`, `_ = uuid.NewUUID()`, "uuid.NewUUID"},
		{`"golang.org/x/sys/unix"`, `unix.Open("/", 0, 0); var st unix.Stat_t; _ = unix.O_PATH; _ = st`, "unix.Open"},
		{`"syscall"`, `syscall.Kill(1, syscall.SIGTERM)`, "syscall.Kill"},
		{`"google.golang.org/grpc","google.golang.org/grpc/codes"`, `grpc.NewClient("unix:/x"); _ = codes.NotFound`, "grpc.NewClient"},
		{`"github.com/vishvananda/netlink"`, `netlink.LinkList()`, "netlink.LinkList"},
		{`"github.com/podrun/podrun/cri"`, `var c *cri.Client; c.StopContainer(nil, "", 0)`, "cri.Client"},
		{`"context"`, `context.WithTimeout(context.Background(), 1)`, "context.WithTimeout"},
		{`"fmt"`, `fmt.Println("hello"); _ = fmt.Sprintf("%d", 1)`, "fmt.Println"},
		{`"sync"`, `go func() {}(); var wg sync.WaitGroup; wg.Go(func() {})`, "goroutine.start goroutine.start"},
		// What acting files declare.
		{"", `_ = readClock(); later := readClock; _ = later`, "dns.readClock dns.readClock"},
		{"", `readClock := 1; _ = clock{readClock: readClock}.readClock`, ""},
		{`"github.com/podrun/podrun/host/nodeconfig"`, `nodeconfig.ReadFile("/x"); nodeconfig.Parse(nil)`, "nodeconfig.ReadFile"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			planning := "package dns\nimport (" + strings.ReplaceAll(tt.imports, ",", "\n") + ")\nfunc f() {\n" + strings.ReplaceAll(tt.body, "; ", "\n") + "\n}\n"
			for name, pure := range map[string]bool{
				"dns/plan.go": true, "dns/apply.go": false, "dns/apply_x.go": false, "dns/remove.go": false, "dns/read.go": false, "dns/plan_test.go": false,
			} {
				var want []string
				if pure {
					want = strings.Fields(tt.want)
				}
				complains(t, checkPurity(sources(t, map[string]string{
					"host/nodeconfig/read.go": `package nodeconfig; import "os"; func ReadFile(name string) { os.ReadFile(name) }`,
					"host/nodeconfig/file.go": `package nodeconfig; func Parse([]byte) {}`,
					"dns/read_clock.go":       `package dns; import "time"; type clock struct{ readClock int }; func readClock() time.Time { return time.Now() }`,
					name:                      planning,
				})), want)
			}
		})
	}
}

// TestPureFiles names the files that plan, and some that act.
func TestPureFiles(t *testing.T) {
	for name, want := range map[string]bool{
		"run/lifecycle/next.go": true, "run/lifecycle/apply.go": true, "run/prepare/plan.go": true, "run/prepare/read.go": true,
		"run/apply.go": false, "run/observe/observe.go": false, "run/node/admit.go": false, "run/reconcile/execute.go": false,
		"cri/print.go": true, "cri/client.go": false,
		"sandbox/sandbox.go": true, "sandbox/apply.go": false, "sandbox/remove.go": false,
		"manifest/load.go": true, "manifest/url.go": false,
		"internal/problem/problem.go": true, "host/nodeconfig/file.go": true, "host/nodeconfig/read.go": false,
		"host/facts.go": true, "host/discover/machine.go": false,
		"container/podlog/follow.go": false, "cmd/apply.go": false,
	} {
		s, err := parse(name, []byte("package p"))
		if err != nil {
			t.Fatal(err)
		}
		if got := pureFile(s); got != want {
			t.Errorf("pureFile(%s) = %t, want %t", name, got, want)
		}
	}
}
