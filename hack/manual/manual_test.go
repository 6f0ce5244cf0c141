package main

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/commands")

const commandsDir = "../../docs/commands"

// TestCommandPages compares docs/commands with the existing commands and flags.
func TestCommandPages(t *testing.T) {
	pages, err := markdownPages(programs()...)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := write(commandsDir, pages); err != nil {
			t.Fatal(err)
		}
	}
	const fix = "go test ./hack/manual -run TestCommandPages -update"
	have, err := os.ReadDir(commandsDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range have {
		if pages[f.Name()] == nil {
			t.Errorf("docs/commands/%s does not belong to a command: %s", f.Name(), fix)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		text, err := os.ReadFile(filepath.Join(commandsDir, name))
		if diff := cmp.Diff(string(text), string(pages[name])); err != nil || diff != "" {
			t.Errorf("docs/commands/%s is not current (%v): %s\n%s", name, err, fix, diff)
		}
	}
}

func manual(t *testing.T) map[string][]byte {
	t.Helper()
	pages, err := manPages("../../docs", programs()...)
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

func TestManPages(t *testing.T) {
	pages := manual(t)
	for _, name := range []string{"podrun.1", "podrun-apply.1", "podrun-image-load.1", "podrun-node.1", "podrun-config.5", "podrun-exit-codes.7"} {
		if !bytes.Contains(pages[name], []byte(".SH NAME")) {
			t.Errorf("%s has no section NAME:\n%.200s", name, pages[name])
		}
	}
	for name, page := range pages {
		if bytes.Contains(page, []byte("0001")) {
			t.Errorf("%s has a date", name)
		}
	}
	if again := manual(t); !maps.EqualFunc(pages, again, bytes.Equal) {
		t.Error("the pages are different the second time")
	}
	// Only podrun(1) may contain the global flags.
	for name, want := range map[string]bool{"podrun.1": true, "podrun-apply.1": false, "podrun-image-load.1": false, "podrun-node.1": false} {
		if got := bytes.Contains(pages[name], []byte(`\-\-cgroup\-root`)) || bytes.Contains(pages[name], []byte(`--cgroup-root`)); got != want {
			t.Errorf("%s lists the global flags: %v", name, got)
		}
	}
}

// TestManPagesWidth formats the pages that are generated from documents for a terminal of 80
// columns. groff warns of wider tables.
func TestManPagesWidth(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	pages := manual(t)
	for _, name := range []string{"podrun-config.5", "podrun-exit-codes.7", "podrun.1"} {
		c := exec.Command(groff, "-man", "-t", "-Tutf8", "-ww", "-rLL=80n")
		c.Stdin = bytes.NewReader(pages[name])
		var warnings bytes.Buffer
		c.Stderr = &warnings
		out, err := c.Output()
		if err != nil || strings.Contains(warnings.String(), "table wider") {
			t.Errorf("%s: %v %s", name, err, warnings.String())
		}
		if len(out) < 500 {
			t.Errorf("%s: groff prints %d bytes", name, len(out))
		}
	}
}

// TestWrite checks that write deletes the pages of removed commands.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "podrun-old.md"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(dir, map[string][]byte{"podrun-new.md": []byte("new")}); err != nil {
		t.Fatal(err)
	}
	have, err := filepath.Glob(dir + "/*")
	if err != nil || len(have) != 1 || filepath.Base(have[0]) != "podrun-new.md" {
		t.Errorf("%v %v", have, err)
	}
}

func TestList(t *testing.T) {
	for _, tc := range []struct{ table, want string }{
		{"| field | type | flag |\n|---|---|---|\n| `rootDir` | path | `--root-dir` |\n| `sources` | list |  |\n", "`rootDir`\n: path; `--root-dir`\n\n`sources`\n: list\n\n"},
		{"| | disk | memory |\n|---|---|---|\n| removed | with a\\|b | by c |\n", "removed\n: disk: with a|b; memory: by c\n\n"},
	} {
		if diff := cmp.Diff(tc.want, list(tc.table)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestPlaceholdersOfFlags checks that the man pages contain words in angle brackets, which are HTML
// in Markdown.
func TestPlaceholdersOfFlags(t *testing.T) {
	page := strings.NewReplacer(`\-`, "-", `\(hy`, "-").Replace(string(manual(t)["podrun-serve.1"]))
	for _, want := range []string{"<root-dir>/serve/podrun.sock", "<root-dir>/serve/readonly.sock"} {
		if !strings.Contains(page, want) {
			t.Errorf("podrun-serve(1) does not contain %s", want)
		}
	}
}
