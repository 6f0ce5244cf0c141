package main

import (
	"runtime/debug"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBill(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Path: "example.com/program"}, Deps: []*debug.Module{
		{Path: "example.com/a", Version: "v1.2.3", Sum: "h1:a"},
		{Path: "example.com/b", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/c", Version: "v2.0.0", Sum: "h1:c"}},
	}}
	d := bill(info, "0.1.0", "f00d", time.Unix(0, 0).UTC())
	var got []string
	for _, p := range d.Packages {
		got = append(got, p.ID+" "+p.References[0].Locator+" "+p.Comment)
	}
	want := []string{
		"SPDXRef-program pkg:golang/example.com/program@0.1.0 ",
		"SPDXRef-1 pkg:golang/stdlib@go1.26.8 ",
		"SPDXRef-2 pkg:golang/example.com/a@v1.2.3 h1:a",
		"SPDXRef-3 pkg:golang/example.com/c@v2.0.0 h1:c",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(d.Relationships) != len(d.Packages) || d.Relationships[3] != (relationship{"SPDXRef-program", "DEPENDS_ON", "SPDXRef-3"}) {
		t.Errorf("%+v", d.Relationships)
	}
	if d.Creation.Created != "1970-01-01T00:00:00Z" || d.Packages[0].Checksums[0].Value != "f00d" {
		t.Errorf("%+v", d)
	}
}
