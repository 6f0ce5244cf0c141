package prepare

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podrun/podrun/host"
	"github.com/podrun/podrun/host/nodeconfig"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/manifest/input"
)

// testFacts are the facts about a host that podrun needs for planning.
var testFacts = host.Facts{NodeName: "node-a", Capacity: corev1.ResourceList{
	corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
}}

// testSettings returns the settings of a host whose disks and memory have no thresholds.
func testSettings() nodeconfig.Settings {
	s := nodeconfig.Default()
	s.EvictionHard = nil
	s.RootDir = "/nowhere/root"
	s.HostnameOverride = "node-a"
	return s
}

// podText returns the manifest of a pod; the lines of the spec have no indentation.
func podText(name, policy string, spec ...string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  restartPolicy: " + policy + "\n" +
		"  " + strings.ReplaceAll(strings.Join(spec, "\n"), "\n", "\n  ") + "\n"
}

func load(t *testing.T, texts ...string) *manifest.Objects {
	t.Helper()
	objects, problems := manifest.Load([]input.Source{{Name: "test.yaml", Data: []byte(strings.Join(texts, "\n---\n"))}}, manifest.Options{})
	if errs := problems.Errors(); len(errs) > 0 {
		t.Fatalf("the test's manifest: %v", errs)
	}
	return objects
}
