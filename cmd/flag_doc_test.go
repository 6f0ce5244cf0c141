package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/cli"
)

// ofOthers are flags of other programs that the pages mention.
// Flags of containerd, curl, systemctl, kompose, CRI-O, cosign and systemd-creds, and a misspelled flag that
// troubleshooting.md shows.
var ofOthers = []string{"add-subuids", "add-subgids", "version", "unix-socket", "user", "stdout", "config-dir", "registries-conf", "timout", "insecure-ignore-tlog", "with-key"}

// flagInPage matches a flag in code, such as `--timeout`.
var flagInPage = regexp.MustCompile("--([a-z][a-z-]+)")

// commandInPage matches a command at the beginning of code or after a pipe.
var commandInPage = regexp.MustCompile(`(?m)(?:^ *|\$ |&& |\| )(?:bin/)?podrun ([a-z][a-z-]*)`)

// firstCells matches the first cell of each table row.
var firstCells = regexp.MustCompile(`(?m)^\| (?:[^|\\]|\\.)*\|`)

// nodeCommand matches a command line of podrun-node, whose flags cmd/podrun-node checks.
var nodeCommand = regexp.MustCompile("(?m)^podrun-node .*$|`podrun-node [^`]*`")

// TestFlagsInPages checks that the flags in the pages exist, and that docs/settings.md
// lists every global flag.
func TestFlagsInPages(t *testing.T) {
	root := newRoot(&cli.App{})
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	known := knownFlags(root)
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "../README.md", "../ARCHITECTURE.md", "../CONTRIBUTING.md")
	for _, page := range pages {
		if filepath.Base(page) == "kubectl-users.md" {
			continue // commands and flags that podrun lacks: ../users_test.go
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(page) == "migrate.md" {
			text = firstCells.ReplaceAll(text, nil) // flags of other tools
		}
		text = nodeCommand.ReplaceAll(text, nil)
		for _, m := range flagInPage.FindAllStringSubmatch(code(string(text)), -1) {
			if !known[m[1]] && !slices.Contains(ofOthers, m[1]) {
				t.Errorf("%s: podrun has no flag --%s", page, m[1])
			}
		}
		for _, m := range commandInPage.FindAllStringSubmatch(code(string(text)), -1) {
			if !isCommand(root, m[1]) {
				t.Errorf("%s: podrun has no command %s", page, m[1])
			}
		}
	}
	table := readPage(t, "../docs/settings.md")
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !strings.Contains(table, "| `--"+f.Name+"`") {
			t.Errorf("docs/settings.md lacks --%s", f.Name)
		}
	})
}

// knownFlags returns the names of the flags of all commands.
func knownFlags(root *cobra.Command) map[string]bool {
	known := map[string]bool{"help": true}
	add := func(f *pflag.Flag) { known[f.Name] = true }
	root.PersistentFlags().VisitAll(add)
	var below func(*cobra.Command)
	below = func(of *cobra.Command) {
		for _, c := range of.Commands() {
			c.Flags().VisitAll(add)
			below(c)
		}
	}
	below(root)
	return known
}

func isCommand(root *cobra.Command, name string) bool {
	c, _, err := root.Find([]string{name})
	return err == nil && c != root
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// code returns the code in a page: fenced, indented by four spaces, or in backticks.
func code(text string) string {
	var b strings.Builder
	fenced := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if fenced || strings.HasPrefix(line, "    ") {
			b.WriteString(line)
			continue
		}
		for i, part := range strings.Split(line, "`") {
			if i%2 == 1 {
				b.WriteString(part + "\n")
			}
		}
	}
	return b.String()
}
