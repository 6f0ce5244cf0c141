package main

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/podrun/podrun/sbom"
)

// TestRun prints the bill of this test's own program, twice the same.
func TestRun(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "0")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out, again bytes.Buffer
	if err := run(&out, program, "0.1.0"); err != nil {
		t.Fatal(err)
	}
	if err := run(&again, program, "0.1.0"); err != nil || out.String() != again.String() {
		t.Errorf("another bill: %v\n%s\n%s", err, out.String(), again.String())
	}
	var d sbom.Document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range d.Packages {
		found = found || p.Purpose == "APPLICATION" && p.Version == "0.1.0" && len(p.Checksums) == 1
	}
	if !found || d.Creation.Created != "1970-01-01T00:00:00Z" {
		t.Errorf("%s", out.String())
	}
	if err := os.Unsetenv("SOURCE_DATE_EPOCH"); err != nil {
		t.Fatal(err)
	}
	if err := run(&out, program, "0.1.0"); err == nil {
		t.Error("a bill without a time")
	}
}
