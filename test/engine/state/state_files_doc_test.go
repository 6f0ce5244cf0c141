package state

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/podrun/podrun/internal/statefile"
)

var updateStateFiles = flag.Bool("update-state-files", false, "write the table of docs/design/state-files.md")

// stateFilesPage is the page with the table of state files.
const stateFilesPage = "../../../docs/design/state-files.md"

// TestTableOfStateFiles checks that the page lists every kind of state file with what podrun does if a file is not
// intact.
func TestTableOfStateFiles(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| file | content | affects | absent | corrupt | unreadable | newer |\n|---|---|---|---|---|---|---|\n")
	for _, r := range statefile.Rows() {
		newer := string(r.On.Newer)
		if !r.Versioned {
			newer = "no version"
		}
		table.WriteString("| `" + strings.Join([]string{r.Files + "`", r.What, "the " + string(r.Scope), r.On.Absent, string(r.On.Corrupt), string(r.On.Unreadable), newer}, " | ") + " |\n")
	}
	page, err := os.ReadFile(stateFilesPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), "<!-- table -->\n")
	_, after, closed := strings.Cut(rest, "<!-- end -->\n")
	if !ok || !closed {
		t.Fatal("the page has no table")
	}
	want := before + "<!-- table -->\n" + table.String() + "<!-- end -->\n" + after
	if *updateStateFiles {
		if err := os.WriteFile(stateFilesPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("the table is outdated: run 'go test ./test/engine/state -run TestTableOfStateFiles -update-state-files'; want\n%s", table.String())
	}
}
