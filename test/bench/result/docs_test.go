package result

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the figures of the last runs into README.md and docs/speed.md")

// TestDocs compares the tables of the documentation with the last runs.
func TestDocs(t *testing.T) {
	all, err := ReadAll("../results")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Skip("test/bench/results has no run")
	}
	for path, parts := range map[string]map[string]string{
		"../../../README.md": {"speed: from make bench-docs": Table(all, true)},
		"../../../docs/speed.md": {
			"speed: from make bench-docs":    Table(all, false),
			"growth: from make bench-docs":   GrowthTable(all),
			"density: from make bench-docs":  DensityTable(all),
			"counters: from make bench-docs": CounterTable(all),
			"runs: from make bench-docs":     RunTable(all),
		},
	} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		for name, part := range parts {
			if text, err = Replace(text, name, part); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
		}
		if *update {
			err = os.WriteFile(path, []byte(text), 0o644)
			if err != nil {
				t.Error(err)
			}
		} else if text != string(data) {
			t.Errorf("%s does not have the figures of the last runs in test/bench/results: run 'make bench-docs'", path)
		}
	}
}
