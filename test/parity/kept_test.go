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

var update = flag.Bool("update", false, "write testdata from the recordings")

// TestKept compares podrun's requests with the recordings in testdata, so that parity is tested even without the
// other recordings. Each file contains the pod and the fields that a kubelet sent, one per line. TestSent uses the
// rest of the file.
func TestKept(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings in testdata: %v", err)
	}
	var total score
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			k := readKept(t, file)
			total.add(compare(t, k.planned, podruns(t, readPod(t, k.manifest), k.planned)))
		})
	}
	t.Logf("%d pods: %d of %d fields are the kubelet's, %d more differ as documented",
		len(files), total.equal, total.equal+total.different, total.documented)
}

// keepReal stores the requests that the kubelet sent to a real containerd, for pods whose
// containers behaved differently than with the fake runtime.
func keepReal(t *testing.T, name, manifest string, sent tracks) {
	t.Helper()
	fake := readKept(t, filepath.Join("testdata", name+".txtar"))
	if string(fake.sent.write()) == string(sent.write()) {
		return
	}
	pod, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	a := &txtar.Archive{
		Comment: []byte("Recorded from kubelet v1.36.3 over containerd 2.4.2 by TestParity -update.\n"),
		Files:   []txtar.File{{Name: "pod.yaml", Data: pod}, {Name: "sent", Data: sent.write()}},
	}
	if err := os.WriteFile(filepath.Join("testdata", "real", name+".txtar"), txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// kept is a recording in testdata: the pod's file, the planned fields, and all requests and
// created files. It contains the recording's words in angle brackets.
type kept struct {
	manifest string
	planned  map[string]string
	sent     tracks
}

func readKept(t *testing.T, file string) kept {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(a.Files) != 3 || a.Files[0].Name != "pod.yaml" || a.Files[1].Name != "kubelet" || a.Files[2].Name != "sent" {
		t.Fatalf("%s: want the files pod.yaml, kubelet and sent", file)
	}
	k := kept{manifest: filepath.Join(t.TempDir(), "pod.yaml"), planned: map[string]string{}, sent: readTracks(t, a.Files[2].Data)}
	if err := os.WriteFile(k.manifest, a.Files[0].Data, 0o600); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(a.Files[1].Data)) {
		field, quoted, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " = ")
		value, err := strconv.Unquote(quoted)
		if !ok || err != nil {
			t.Fatalf("%s: not a field: %s", file, line)
		}
		k.planned[field] = value
	}
	return k
}

// writeKept stores a recording without the fields in which podrun intentionally differs.
func writeKept(t *testing.T, name, manifest string, kubelets map[string]string, sent tracks) {
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
		Files: []txtar.File{
			{Name: "pod.yaml", Data: pod}, {Name: "kubelet", Data: []byte(fields.String())}, {Name: "sent", Data: sent.write()},
		},
	}
	if err := os.WriteFile(filepath.Join("testdata", name+".txtar"), txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}
