package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run/prepare"
)

// TestHardened computes the plans of all pods in testdata/script with and without the hardened
// profile, on a host that supports user namespaces. It compares the outcomes with
// testdata/hardened.txt: each pod runs with a user namespace, runs without one, or is refused. It
// omits pods that this host refuses without the profile. A pod that is not in the file, for example
// because its script is new, may have any outcome.
func TestHardened(t *testing.T) {
	const wanted = "testdata/hardened.txt"
	f := facts(t, &txtar.Archive{})
	f.KernelVersion, f.MaxUserNamespaces = "6.6.0", 1000
	f.Runtime.Version = "2.1.0"
	f.Runtime.Handlers = map[string]host.RuntimeHandler{"": {UserNamespaces: true, RecursiveReadOnlyMounts: true}}
	hardened, problems := nodeconfig.Parse([]byte("apiVersion: podrun.dev/v1alpha1\nkind: PodrunConfiguration\nprofile: hardened\n"), nodeconfig.Default())
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	scripts, err := filepath.Glob("../../testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatal("no scripts", err)
	}
	var lines []string
	for _, script := range scripts {
		archive, err := txtar.ParseFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range archive.Files {
			for _, outcome := range outcomes(file.Data, f, hardened) {
				lines = append(lines, fmt.Sprintf("%s %s %s\n", strings.TrimSuffix(filepath.Base(script), ".txtar"), file.Name, outcome))
			}
		}
	}
	got := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile(wanted, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(wanted)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(want)) {
		if !slices.Contains(lines, line) {
			t.Errorf("changed outcome: %s(go test ./test/plan -update accepts it)", line)
		}
	}
	for _, outcome := range []string{": runs with host IDs ", ": runs without a user namespace: ", ": refused: "} {
		if !strings.Contains(got, outcome) {
			t.Errorf("no pod%s", outcome)
		}
	}
}

// outcomes returns the outcomes of the pods in a file of a script; or nil if the file contains no
// pods or is invalid.
func outcomes(data []byte, f host.Facts, hardened nodeconfig.Settings) []string {
	text := os.Expand(string(data), func(name string) string {
		switch name {
		case "WORK":
			return "/work"
		case "NS":
			return "default"
		}
		return "registry.example/app:1"
	})
	load := func() (*manifest.Objects, problem.List) {
		return manifest.Load([]input.Source{{Name: "pod.yaml", Data: []byte(text)}}, manifest.Options{})
	}
	objects, problems := load()
	if len(problems.Errors()) > 0 {
		return nil
	}
	plain, _ := prepare.All(prepare.Input{Objects: objects, HostState: prepare.HostState{Facts: f}, Settings: nodeconfig.Default()})
	objects, _ = load()
	targets, _ := prepare.All(prepare.Input{Objects: objects, HostState: prepare.HostState{Facts: f}, Settings: hardened})
	var out []string
	for i, target := range targets {
		pod := "pod " + target.Plan.ID.Name
		if plain[i].Plan.ID.Name == "" || len(plain[i].Problems.Errors()) > 0 {
			continue
		}
		var refused []string
		for _, p := range target.Problems.Errors() {
			if !slices.Contains(refused, p.Message) {
				refused = append(refused, p.Message)
			}
		}
		view, err := target.View()
		switch reason, none := strings.CutPrefix(view.UserNamespace, "none: "); {
		case len(refused) > 0:
			out = append(out, pod+": refused: "+strings.Join(refused, "; "))
		case err != nil:
			out = append(out, pod+": "+err.Error())
		case none:
			out = append(out, pod+": runs without a user namespace: "+reason)
		case view.UserNamespace == "":
			out = append(out, pod+": runs as hostUsers says")
		default:
			out = append(out, pod+": runs with "+view.UserNamespace)
		}
	}
	return out
}
