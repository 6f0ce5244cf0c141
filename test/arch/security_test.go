package arch

import (
	"os"
	"strings"
	"testing"

	"github.com/podrun/podrun/test/ring"
)

// securityTables are the tables of docs/security.md in which each row names the tests that verify it,
// with some of the rows that they must have.
var securityTables = []struct {
	header string
	rows   []string
}{
	{"| a container with | can | tests |\n|---|---|---|\n",
		[]string{"no privileges", "the root directory, read-only", "the root directory, read-write", "hostNetwork", "hostPID", "privileged"}},
	{"| attempt | baseline | restricted | hardened | tests |\n|---|---|---|---|---|\n", []string{"root in the container"}},
}

// TestDocSecurity checks that each row of the tables in docs/security.md names existing tests.
func TestDocSecurity(t *testing.T) {
	ring.Require(t, 2)
	text, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testNames(t)
	for _, want := range securityTables {
		_, table, ok := strings.Cut(string(text), want.header)
		table, _, end := strings.Cut(table, "\n\n")
		if !ok || !end {
			t.Fatalf("there is no table\n%s", want.header)
		}
		columns := strings.Count(want.header, "---")
		lines := map[string]bool{}
		for line := range strings.Lines(table) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if len(cells) != columns {
				t.Errorf("%d cells, not %d: %s", len(cells), columns, line)
				continue
			}
			lines[strings.TrimSpace(cells[0])] = true
			named := testName.FindAllStringSubmatch(cells[columns-1], -1)
			if len(named) == 0 {
				t.Errorf("the line of %s names no test", cells[0])
			}
			for _, n := range named {
				if !tests[n[1]+"."+n[2]] {
					t.Errorf("the line of %s: there is no test %s.%s", cells[0], n[1], n[2])
				}
			}
		}
		for _, row := range want.rows {
			if !lines[row] {
				t.Errorf("there is no line of %s", row)
			}
		}
	}
}
