package printers

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"text/tabwriter"
)

// causes are the intended differences between the texts and the output of kubectl. The table in
// docs/kubectl.md has a row with the name of each.
var causes = []struct{ name, file, section, kubectl, podrun string }{
	{"grace period", "terminating.txtar", "want", "Terminating (lasts 90s)", "Terminating (lasts 2m)"},
	{"lines of a message", "running.txtar", "want", `
    State:       Running
      Started:   Fri, 02 Jan 2026 03:00:05 +0000
    Last State:  Terminated
      Reason:    OOMKilled
      Message:   ran out
of memory
`, `
    State:          Running
      Started:      Fri, 02 Jan 2026 03:00:05 +0000
    Last State:     Terminated
      Reason:       OOMKilled
      Message:      ran out
                    of memory
`},
}

// addedColumns are the cells that podrun adds to the tables of 'get pods -o wide', after kubectl's columns.
var addedColumns = map[string][]string{
	"completed.txtar":        {"registry.example:5000/busybox:1.36", "<none>"},
	"imagepullbackoff.txtar": {"registry.example:5000/missing:1,registry.example:5000/busybox:1.36", "<none>"},
	"initializing.txtar":     {"registry.example:5000/app:1", "<none>"},
	"running.txtar":          {"registry.example:5000/web:1.2,registry.example:5000/side", "80->8080/TCP,53/UDP,9000/TCP"},
	"terminating.txtar":      {"registry.example:5000/app:1", "<none>"},
}

// addColumns adds addedColumns to a table with one pod.
func addColumns(table, file string) string {
	cells, ok := addedColumns[file]
	if !ok {
		return table
	}
	var out strings.Builder
	heading, row, _ := strings.Cut(strings.TrimSuffix(table, "\n"), "\n")
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "%s\tIMAGES\tPORTS\n%s\t%s\n", heading, row, strings.Join(cells, "\t"))
	w.Flush()
	return out.String()
}

func TestCausesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := func(name string) {
		if !strings.Contains(string(page), "| **"+name+"** |") {
			t.Errorf("docs/kubectl.md has no row **%s**", name)
		}
	}
	for _, c := range causes {
		documented(c.name)
	}
	documented("images and ports")
}
