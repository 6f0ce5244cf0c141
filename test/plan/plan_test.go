// Package plan compares plans with golden files. Each file contains a pod, the facts of a host, and
// podrun's plan including the CRI messages.
package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
	"github.com/podrun/podrun/run/prepare"
)

var update = flag.Bool("update", false, "write the plans that podrun makes now")

// TestGolden compares the plan of pod.yaml in each archive in testdata with want.yaml. The facts
// are in facts.yaml of the directory, and the facts.yaml in the archive overrides them. The
// settings are in kubelet.yaml.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden plans", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			golden, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := plan(t, golden)
			if again := plan(t, golden); !bytes.Equal(got, again) {
				t.Errorf("two plans of the same input differ:\n%s", cmp.Diff(string(got), string(again)))
			}
			if *update {
				write(t, file, golden, got)
				return
			}
			if diff := cmp.Diff(section(golden, "want.yaml"), string(got)); diff != "" {
				t.Errorf("-want +got:\n%s\n(go test ./test/plan -update accepts it)", diff)
			}
		})
	}
}

// plan returns the output of `podrun plan`.
func plan(t *testing.T, golden *txtar.Archive) []byte {
	t.Helper()
	objects, problems := manifest.Load([]input.Source{{Name: "pod.yaml", Data: []byte(section(golden, "pod.yaml"))}}, manifest.Options{})
	if errs := problems.Errors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	settings := nodeconfig.Default()
	settings.ClusterDNS, settings.ClusterDomain = []string{"10.96.0.10"}, "cluster.local"
	if text := section(golden, "kubelet.yaml"); text != "" {
		settings, problems = nodeconfig.Parse([]byte(text), settings)
		if errs := problems.Errors(); len(errs) > 0 {
			t.Fatal(errs)
		}
	}
	targets, found := prepare.All(prepare.Input{Objects: objects, HostState: prepare.HostState{Facts: facts(t, golden)}, Settings: settings, Invocation: "(invocation)"})
	out := struct {
		Problems problem.List       `json:"problems,omitempty"`
		Plans    []prepare.PlanView `json:"plans"`
	}{Problems: found}
	for _, target := range targets {
		view, err := target.View()
		if err != nil {
			t.Fatal(err)
		}
		out.Plans = append(out.Plans, view)
	}
	data, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = yaml.JSONToYAML(data); err != nil {
		t.Fatal(err)
	}
	return data
}

// facts returns the facts in testdata/facts.yaml, overridden by the fields of the
// golden's own facts.yaml.
func facts(t *testing.T, golden *txtar.Archive) host.Facts {
	t.Helper()
	data, err := os.ReadFile("testdata/facts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var f host.Facts
	for _, text := range []string{string(data), section(golden, "facts.yaml")} {
		if err := yaml.UnmarshalStrict([]byte(text), &f); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func section(golden *txtar.Archive, name string) string {
	for _, f := range golden.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

func write(t *testing.T, file string, golden *txtar.Archive, got []byte) {
	t.Helper()
	out := &txtar.Archive{Comment: golden.Comment}
	for _, f := range golden.Files {
		if f.Name != "want.yaml" {
			out.Files = append(out.Files, f)
		}
	}
	out.Files = append(out.Files, txtar.File{Name: "want.yaml", Data: got})
	if err := os.WriteFile(file, txtar.Format(out), 0o644); err != nil {
		t.Fatal(err)
	}
}
