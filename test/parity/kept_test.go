package parity

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "write testdata anew from the recordings")

// TestKept compares with the recordings that are kept in testdata, so that
// parity is tested where the others are not at hand. Each file has the pod and,
// one a line, the fields that a kubelet sent.
func TestKept(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in testdata: %v", err)
	}
	var total score
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			manifest, kubelets := readKept(t, file)
			total.add(compare(t, kubelets, podruns(t, readPod(t, manifest), kubelets)))
		})
	}
	t.Logf("%d pods: %d of %d fields are the kubelet's, %d more differ as documented",
		len(files), total.equal, total.equal+total.different, total.documented)
}

// readKept returns a file with the pod, and the kubelet's fields.
func readKept(t *testing.T, file string) (manifest string, kubelets map[string]string) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Files) != 2 || a.Files[0].Name != "pod.yaml" || a.Files[1].Name != "kubelet" {
		t.Fatalf("%s: want the files pod.yaml and kubelet", file)
	}
	manifest = filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(manifest, a.Files[0].Data, 0o600); err != nil {
		t.Fatal(err)
	}
	kubelets = map[string]string{}
	for line := range strings.Lines(string(a.Files[1].Data)) {
		field, quoted, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		value, err := strconv.Unquote(quoted)
		if !ok || err != nil {
			t.Fatalf("%s: not a field: %s", file, line)
		}
		kubelets[field] = value
	}
	return manifest, kubelets
}

// writeKept keeps a recording, without the fields in which podrun means to differ.
func writeKept(t *testing.T, name, manifest string, kubelets map[string]string) {
	t.Helper()
	pod, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	var fields strings.Builder
	for _, field := range slices.Sorted(maps.Keys(kubelets)) {
		if !isDocumented(field) {
			fmt.Fprintf(&fields, "%s = %q\n", field, kubelets[field])
		}
	}
	a := &txtar.Archive{
		Comment: []byte("Recorded from kubelet v1.36.3 by TestParity -update; see kept_test.go.\n"),
		Files:   []txtar.File{{Name: "pod.yaml", Data: pod}, {Name: "kubelet", Data: []byte(fields.String())}},
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".txtar"), txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}
