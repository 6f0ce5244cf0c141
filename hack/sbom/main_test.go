package main

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/hack/spdx"
)

// TestLinked builds this program. It compares the modules that linked lists before the build
// with those that the linker wrote into the binary.
func TestLinked(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "sbom")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	got, err := linked(".", runtime.GOARCH, "grpcnotrace,")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 3 {
		t.Errorf("only %v", got)
	}
	for i := range got {
		if got[i].License == "" {
			t.Errorf("%s has no license", got[i].Path)
		}
		if i > 0 {
			got[i].License = "" // the binary does not contain the license
		}
	}
	if diff := cmp.Diff(spdx.Modules(info), got); diff != "" {
		t.Errorf("(-linked +listed):\n%s", diff)
	}
}

// TestDocument checks that the document includes the packages of an embedded runtime, and that it
// is reproducible.
func TestDocument(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "100")
	inside := spdx.New("runtime", time.Unix(0, 0))
	inside.Add(spdx.Program{Name: "runc", Version: "v1.5.2", Modules: []spdx.Module{{Path: "example.org/a", Version: "v1.0.0", License: "MIT"}}})
	podrun := spdx.Program{Name: "podrun", Modules: []spdx.Module{{Path: "example.org/a", Version: "v1.0.0"}}}
	var out, again bytes.Buffer
	for _, w := range []*bytes.Buffer{&out, &again} {
		if err := document(w, "0.1.0", "arm64", podrun, &inside); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != again.String() {
		t.Error("two documents of the same content differ")
	}
	for _, want := range []string{`"spdxVersion": "SPDX-2.3"`, `"created": "1970-01-01T00:01:40Z"`, `"name": "podrun 0.1.0 linux/arm64"`,
		`"SPDXID": "SPDXRef-program-runc-v1.5.2"`, `"SPDXID": "SPDXRef-program-podrun-0.1.0"`, `"licenseDeclared": "MIT"`} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%d times %s in\n%s", strings.Count(out.String(), want), want, &out)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if err := document(&out, "0.1.0", "arm64", podrun, nil); err == nil {
		t.Error("a document without a time")
	}
}
