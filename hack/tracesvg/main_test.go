package main

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

// TestDraw checks that the picture is XML, that names are escaped, and that the position
// of a bar is that of its span.
func TestDraw(t *testing.T) {
	got := draw(trace{Command: "podrun apply", DurationUs: 200_000, Spans: []span{
		{Kind: "phase", Name: "read <manifests>", BeginUs: 0, DurationUs: 20_000},
		{Kind: "call", Name: "RunPodSandbox", BeginUs: 100_000, DurationUs: 50_000},
		{Kind: "call", Name: "Version", BeginUs: 1, DurationUs: 999},
	}})
	d := xml.NewDecoder(strings.NewReader(got))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"podrun apply, 200 ms", "read &lt;manifests&gt;", `<rect x="530.0" y="47" width="140.0"`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "Version") {
		t.Error("a span of less than 1 ms is drawn")
	}
}
