package cmd

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
)

// TestCommandGroups checks that the help and README.md list every command, in the same groups.
func TestCommandGroups(t *testing.T) {
	root := newRoot(cli.New(cli.Streams{}))
	var grouped []string
	readme := readPage(t, "../README.md")
	for _, g := range commandGroups {
		grouped = append(grouped, g.commands...)
		if !strings.Contains(readme, "\n| "+g.title+" |") {
			t.Errorf("README.md has no group %q", g.title)
			continue
		}
		_, row, _ := strings.Cut(readme, "\n| "+g.title+" |")
		row, _, _ = strings.Cut(row, "\n")
		for _, name := range g.commands {
			if name != "help" && name != "options" && !strings.Contains(row, "`"+name) {
				t.Errorf("README.md does not have %s in the group %q", name, g.title)
			}
		}
	}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && !slices.Contains(grouped, c.Name()) {
			t.Errorf("%s is in no group", c.Name())
		}
	}
}

// TestQuietEverywhere checks that every command accepts -q: words.txt ignores it for commands that print no messages. The
// help of the others describes the flag.
func TestQuietEverywhere(t *testing.T) {
	root := newRoot(cli.New(cli.Streams{}))
	for _, name := range []string{"apply", "run", "serve", "wait", "restart", "stop", "start", "delete", "gc", "diff", "doctor", "port-forward", "exec", "attach", "debug"} {
		if f := grammar.Named(root, name).Flags().Lookup("quiet"); f == nil || f.Hidden || f.Usage == "" || f.Shorthand != "q" {
			t.Errorf("the help of %s does not describe -q", name)
		}
	}
}

func TestArgsError(t *testing.T) {
	for line, want := range map[string]string{
		"cp web:/a":         "wrong number of arguments: 1; use 'podrun cp SRC DST', for example 'podrun cp web:/var/log/app ./logs'",
		"image pull":        "arguments are missing; use 'podrun image pull IMAGE...'",
		"gc web":            "wrong number of arguments: 1; use 'podrun gc', for example 'podrun gc --dry-run'",
		"image frobnicate":  `"frobnicate" is not a command of podrun image; see 'podrun image --help'`,
		"create deployment": "arguments are missing; use 'podrun create deployment NAME --image=IMAGE [-- COMMAND...]', for example 'podrun create deployment web --image=nginx:1.27 --port=80'",
	} {
		root := newRoot(cli.New(cli.Streams{}))
		root.SetArgs(strings.Fields(line))
		err := root.ExecuteContext(t.Context())
		if got := fmt.Sprint(err, "; ", exit.HintFor(err)); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
