package arch

import (
	"os"
	"strings"
	"testing"
)

// TestDocSecurity checks that each row in the table of docs/security.md about containers
// names existing tests.
func TestDocSecurity(t *testing.T) {
	text, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| a container with | can | tests |\n|---|---|---|\n")
	table, _, end := strings.Cut(table, "\n\n")
	if !ok || !end {
		t.Fatal("no table of what a container can do")
	}
	tests := testNames(t)
	lines := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 {
			t.Errorf("%d cells: %s", len(cells), line)
			continue
		}
		lines[strings.TrimSpace(cells[0])] = true
		named := testName.FindAllStringSubmatch(cells[2], -1)
		if len(named) == 0 {
			t.Errorf("the line of %s names no test", cells[0])
		}
		for _, n := range named {
			if !tests[n[1]+"."+n[2]] {
				t.Errorf("the line of %s: there is no test %s.%s", cells[0], n[1], n[2])
			}
		}
	}
	for _, want := range []string{"no privileges", "the root directory, read-only", "the root directory, read-write", "hostNetwork", "hostPID", "privileged"} {
		if !lines[want] {
			t.Errorf("there is no line of a container with %s", want)
		}
	}
}
