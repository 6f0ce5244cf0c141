// Manual writes the manual of podrun and podrun-node from their commands and from docs:
//
//	go run ./hack/manual -commands docs/commands    # Markdown, one page per command
//	go run ./hack/manual -man DIR                   # man pages
//
// The Markdown is committed, and the test of this package checks that it is current. The man
// pages are generated when packages are built: podrun(1), one page for each command, podrun-node(1),
// podrun-config(5) and podrun-exit-codes(7).
package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd"
	"github.com/podrun/podrun/serve/cluster"
)

func main() {
	commands := flag.String("commands", "", "write Markdown pages to this `directory`")
	man := flag.String("man", "", "write man pages to this `directory`")
	docs := flag.String("docs", "docs", "`directory` of the pages that become man pages")
	flag.Parse()
	if err := run(*commands, *man, *docs); err != nil {
		fmt.Fprintln(os.Stderr, "manual:", err)
		os.Exit(1)
	}
}

func run(commands, man, docs string) error {
	if commands != "" {
		pages, err := markdownPages(programs()...)
		if err != nil {
			return err
		}
		if err := write(commands, pages); err != nil {
			return err
		}
	}
	if man == "" {
		return nil
	}
	pages, err := manPages(docs, programs()...)
	if err != nil {
		return err
	}
	return write(man, pages)
}

// programs returns the root commands of podrun and podrun-node.
func programs() []*cobra.Command {
	return []*cobra.Command{cmd.Commands(), cmd.NodeCommand(cluster.NewJoiner(""))}
}

// write writes the pages to dir. It removes all other files in dir, such as the pages of removed
// commands.
func write(dir string, pages map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	have, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, f := range have {
		if pages[f.Name()] != nil {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		file := filepath.Join(dir, name)
		if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, pages[name]) {
			continue
		}
		if err := os.WriteFile(file, pages[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
