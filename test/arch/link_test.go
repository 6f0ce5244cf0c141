package arch

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// unlinked are import paths, in addition to banned, that podrun must not reach through any package,
// because linking them makes every command more expensive. Each includes all paths below it.
var unlinked = []struct{ path, why string }{
	{"golang.org/x/net/trace", "pages that nothing shows: 0.3 MB; build with the tag grpcnotrace"},
	{"html/template", "podrun writes no HTML"},
	{"net/http/pprof", "it registers handlers at each start, on the mux of net/http's default server"},
	{"testing", "its flags; only tests have it"},
	{"k8s.io/client-go/kubernetes", "11 MB: there is no API server"},
	{"k8s.io/client-go/rest", "it needs an API server"},
	{"k8s.io/client-go/tools", "it needs an API server"},
	{module + "/serve/cluster", "the client of an API server: only podrun-node links it"},
	{"k8s.io/cli-runtime/pkg/genericclioptions", "10 MB: cmd prints by the printers alone"},
	{"k8s.io/kubectl", "it needs an API server"},
	{"k8s.io/apiserver/pkg/server", "the whole API server, with etcd's client"},
	{"k8s.io/apiserver/pkg/cel", "an interpreter of expressions, with the packages of cel-go"},
	{"github.com/google/cel-go", "expressions of custom resources, of which there are none"},
	{"go.opentelemetry.io/otel/sdk", "podrun exports no spans: --trace writes text and JSON"},
	{"go.opentelemetry.io/otel/exporters", "podrun exports no spans: --trace writes text and JSON"},
	{"github.com/containerd/containerd/v2", "containerd's client; containerd/api has the messages"},
	{"github.com/google/go-containerregistry", "it is for tests only"},
	{"github.com/spdx/tools-golang", "it is for builds only: package sbom embeds what hack/sbom writes"},
	{"github.com/in-toto/attestation", "it is for releases only"},
	{"github.com/klauspost/compress", "only podrun-bundle decompresses"},
	{forTests, "it is for tests only"},
}

// earned lists the packages whose benefit justifies their cost. The costs were measured when the
// packages were linked. They consist of the additional size of the binary, and the additional CPU
// time of `version --client` (medians of 200 alternating pairs).
var earned = []struct {
	path, why string
	mb, ms    float64
}{
	{"text/template", "Go templates as kubectl has them, from k8s.io/cli-runtime. It calls methods by name: the linker keeps every exported method", 5.9, 0},
	{"runtime/pprof", "grpc's labels of goroutines. Package heap turns the sampling of allocations off (heap.TestNoSampling)", 0.1, 0},
}

// The budget for the packages in earned. For comparison, the binary has 48 MB (test/bench), and its
// start takes 7 ms.
const (
	earnedMB = 8
	earnedMs = 0.5
)

// TestEarned checks that the entries in earned are within the budget, and that each of them is
// still linked.
func TestEarned(t *testing.T) {
	graph := linked(t)
	var mb, ms float64
	for _, e := range earned {
		if !strings.Contains("\n"+graph, "\n"+e.path+" ") {
			t.Errorf("%s is not linked: remove its entry", e.path)
		}
		mb, ms = mb+e.mb, ms+e.ms
	}
	if mb > earnedMB || ms > earnedMs {
		t.Errorf("the packages cost %.1f MB and %.1f ms, and the budget is %d MB and %.1f ms", mb, ms, earnedMB, earnedMs)
	}
}

// TestUnlinked checks all imports of the binary, including those of other modules, because a new
// version of a module may import an expensive package.
func TestUnlinked(t *testing.T) {
	for _, complaint := range checkLinked(linked(t)) {
		t.Error(complaint)
	}
}

// linked lists the packages of the binary with their imports.
func linked(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-tags", "grpcnotrace", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	graph := string(out)
	if n := strings.Count(graph, "\n"); n < 300 {
		t.Fatalf("only %d packages were found: the table would check almost nothing", n)
	}
	return graph
}

func TestUnlinkedBites(t *testing.T) {
	complains(t, checkLinked("testing\na testing\nb a\nk8s.io/client-go/restful\nk8s.io/kubernetes/pkg/volume/util/subpath\nk8s.io/kubernetes/pkg/volume/util/fs\n"),
		[]string{"k8s.io/kubernetes/pkg/volume/util/fs is linked", "testing, which a imports"})
}

// checkLinked finds packages that must not be linked. Each line of its input contains a package and
// its imports.
func checkLinked(graph string) []string {
	var out []string
	for line := range strings.Lines(graph) {
		path, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		for _, b := range slices.Concat(banned, unlinked) {
			if within(path, b.path) && !slices.Contains(light, path) {
				out = append(out, path+importers(graph, path)+" is linked: "+b.why)
			}
		}
	}
	return sorted(out)
}

// importers names the first package in the graph that imports the package path.
func importers(graph, path string) string {
	for line := range strings.Lines(graph) {
		if fields := strings.Fields(line); len(fields) > 1 && slices.Contains(fields[1:], path) {
			return ", which " + fields[0] + " imports,"
		}
	}
	return ""
}
