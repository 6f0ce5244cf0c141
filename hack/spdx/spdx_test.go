package spdx

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDocument(t *testing.T) {
	d := New("test", time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)))
	shared := Module{Path: "example.org/a", Version: "v1.0.0+incompatible", Sum: "h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=", License: "MIT"}
	d.Add(Program{Name: "one", Version: "v1", SHA256: "ab", License: "Apache-2.0", Modules: []Module{shared}})
	d.Add(Program{Name: "two", Version: "v2", Modules: []Module{shared, {Path: "stdlib", Version: "go1.26.8"}},
		Libraries: []Library{{Name: "libseccomp", Version: "2.5.4", License: "LGPL-2.1-only", Source: "libseccomp=2.5.4-1+deb12u1"}}})
	want := []string{
		"SPDXRef-go-example.org-a-v1.0.0-incompatible MIT h1:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= pkg:golang/example.org/a@v1.0.0%2Bincompatible",
		"SPDXRef-go-stdlib-go1.26.8 NOASSERTION  pkg:golang/stdlib@go1.26.8",
		"SPDXRef-library-libseccomp-2.5.4 LGPL-2.1-only  pkg:deb/debian/libseccomp@2.5.4-1%2Bdeb12u1?arch=source",
		"SPDXRef-program-one-v1 Apache-2.0 ab ",
		"SPDXRef-program-two-v2 NOASSERTION  ",
	}
	if diff := cmp.Diff(want, packages(d)); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	var relations []string
	for _, r := range d.Relationships {
		relations = append(relations, string(r.RefA.ElementRefID)+" "+r.Relationship+" "+string(r.RefB.ElementRefID))
	}
	if diff := cmp.Diff([]string{
		"DOCUMENT DESCRIBES program-one-v1",
		"program-one-v1 DEPENDS_ON go-example.org-a-v1.0.0-incompatible",
		"DOCUMENT DESCRIBES program-two-v2",
		"program-two-v2 DEPENDS_ON go-example.org-a-v1.0.0-incompatible",
		"program-two-v2 DEPENDS_ON go-stdlib-go1.26.8",
		"program-two-v2 STATIC_LINK library-libseccomp-2.5.4",
	}, relations); diff != "" {
		t.Errorf("relationships (-want +got):\n%s", diff)
	}
	if d.CreationInfo.Created != "2026-01-02T02:04:05Z" {
		t.Errorf("created: %s", d.CreationInfo.Created)
	}
}

// TestJoin checks that a module in both documents becomes one package. If one of the documents
// contains the license, the package must contain it.
func TestJoin(t *testing.T) {
	module := Module{Path: "example.org/a", Version: "v1.0.0"}
	d, other := New("d", time.Time{}), New("other", time.Time{})
	d.Add(Program{Name: "podrun", Version: "v1", Modules: []Module{module}})
	module.License = "MIT"
	other.Add(Program{Name: "runc", Version: "v1", Modules: []Module{module}})
	read := printed(t, other)
	d.Join(read)
	d.Join(read)
	want := []string{
		"SPDXRef-go-example.org-a-v1.0.0 MIT  pkg:golang/example.org/a@v1.0.0",
		"SPDXRef-program-podrun-v1 NOASSERTION  ",
		"SPDXRef-program-runc-v1 NOASSERTION  ",
	}
	if diff := cmp.Diff(want, packages(d)); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	if len(d.Relationships) != 4 {
		t.Errorf("relationships: %v", d.Relationships)
	}
}

func TestModules(t *testing.T) {
	got := Modules(&debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "a", Version: "v1", Sum: "h1:x"},
		{Path: "b", Version: "v1", Replace: &debug.Module{Path: "c", Version: "v3"}},
	}})
	want := []Module{{Path: "stdlib", Version: "go1.26.8", License: "BSD-3-Clause"}, {Path: "a", Version: "v1", Sum: "h1:x"}, {Path: "c", Version: "v3"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNamespace checks that different documents have different namespaces.
func TestNamespace(t *testing.T) {
	d := New("d", time.Unix(0, 0))
	d.Add(Program{Name: "podrun", Version: "v1"})
	before, again := printed(t, d).DocumentNamespace, printed(t, d).DocumentNamespace
	d.Add(Program{Name: "runc", Version: "v1"})
	after := printed(t, d).DocumentNamespace
	if !strings.HasPrefix(before, "https://podrun.dev/spdx/test-") || before != again || before == after {
		t.Errorf("namespaces %q, %q, %q", before, again, after)
	}
}

func printed(t *testing.T, d Document) Document {
	t.Helper()
	var text bytes.Buffer
	if err := d.Print(&text, "test"); err != nil {
		t.Fatal(err)
	}
	read, err := Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func packages(d Document) []string {
	var out []string
	for _, p := range d.Packages {
		line := "SPDXRef-" + string(p.PackageSPDXIdentifier) + " " + p.PackageLicenseDeclared + " " + p.PackageComment
		for _, c := range p.PackageChecksums {
			line += c.Value
		}
		line += " "
		for _, r := range p.PackageExternalReferences {
			line += r.Locator
		}
		out = append(out, line)
	}
	return out
}
