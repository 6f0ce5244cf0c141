package cmd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
)

// documented are the pages with the table of exit codes.
var documented = []string{"../docs/exit-codes.md"}

// exitLine matches a line of `podrun help exit-codes`.
var exitLine = regexp.MustCompile(`(?m)^ +(\d+)  (.+)$`)

// TestExitCodesInPages compares the pages with podrun's own output.
func TestExitCodesInPages(t *testing.T) {
	var help bytes.Buffer
	if code := Main(context.Background(), []string{"help", "exit-codes"}, cli.Streams{Out: &help, Err: &help}, "test", time.Now()); code != exit.OK {
		t.Fatalf("help exit-codes exits with %d: %s", code, help.String())
	}
	rows := exitLine.FindAllStringSubmatch(help.String(), -1)
	if len(rows) != len(exit.Table) {
		t.Fatalf("the help has %d codes, the table %d:\n%s", len(rows), len(exit.Table), help.String())
	}
	want := "| code | `reason` | meaning |\n|---|---|---|\n"
	for _, row := range rows {
		code, err := strconv.Atoi(row[1])
		if err != nil {
			t.Fatal(err)
		}
		want += fmt.Sprintf("| %d | %s | %s |\n", code, exit.Reason(code), row[2])
	}
	for _, page := range documented {
		t.Run(page, func(t *testing.T) {
			if diff := cmp.Diff(want, section(t, page, "exit-codes")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", page, diff)
			}
		})
	}
}

// section returns the text between <!-- NAME --> and <!-- /NAME -->.
func section(t *testing.T, page, name string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(text), "<!-- "+name+" -->\n")
	inner, _, ends := strings.Cut(rest, "<!-- /"+name+" -->")
	if !begins || !ends {
		t.Fatalf("%s has no section %s", page, name)
	}
	return inner
}
