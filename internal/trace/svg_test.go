package trace

import (
	"encoding/xml"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/waterfall.svg")

// TestWriteSVG compares a drawing with testdata/waterfall.svg. Names must be escaped, a span of
// less than 1 ms must be missing, and a failed call must be red.
func TestWriteSVG(t *testing.T) {
	const golden = "testdata/waterfall.svg"
	var b strings.Builder
	err := Trace{Command: "podrun apply", Duration: 200_000, Dropped: 3, Spans: []Span{
		{Kind: Phase, Name: "read <manifests>", Begin: 0, Duration: 20_000},
		{Kind: Call, Name: "Version", Begin: 1, Duration: 999},
		{Kind: Phase, Name: "StartContainer", Object: "default/web app", Begin: 100_000, Duration: 90_000},
		{Kind: Call, Name: "StartContainer", Begin: 100_000, Duration: 50_000, Error: "no runtime"},
		{Kind: Call, Name: "ContainerStatus", Begin: 199_000, Duration: 1000},
	}}.WriteSVG(&b)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the drawing differs from %s (run with -update):\n%s", golden, b.String())
	}
	wellFormed(t, b.String())
}

// TestWriteSVGOfNoSpans checks that drawing a trace without spans and without a duration does not
// cause a division by zero.
func TestWriteSVGOfNoSpans(t *testing.T) {
	var b strings.Builder
	if err := (Trace{Command: "podrun get"}).WriteSVG(&b); err != nil {
		t.Fatal(err)
	}
	wellFormed(t, b.String())
	if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "not shown") {
		t.Error(b.String())
	}
}

func wellFormed(t *testing.T, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("not XML: %v\n%s", err, text)
		}
	}
}
