package printers

import (
	"os"
	"strings"
	"testing"
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

func TestCausesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range causes {
		if !strings.Contains(string(page), "| **"+c.name+"** |") {
			t.Errorf("docs/kubectl.md has no row **%s**", c.name)
		}
	}
}
