package cmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
)

// helpOf returns the help and all flags, including hidden ones, of a command and its subcommands.
func helpOf(t *testing.T, root *cobra.Command, c *cobra.Command) string {
	t.Helper()
	var out bytes.Buffer
	root.SetOut(&out)
	c.InitDefaultHelpFlag()
	if err := c.Help(); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{c.Flags().FlagUsages(), c.InheritedFlags().FlagUsages()} {
		out.WriteString(f)
	}
	if f := c.Flags().Lookup("quiet"); f != nil {
		out.WriteString(f.Usage + f.NoOptDefVal)
	}
	for _, sub := range c.Commands() {
		out.WriteString(helpOf(t, root, sub))
	}
	return out.String()
}

// A command that podrun creates alone must be the same as the one among all commands.
func TestOnlyCommandIsTheSame(t *testing.T) {
	all := newRoot(cli.New(cli.Streams{}))
	for _, c := range constructors {
		alone := newRootFor(cli.New(cli.Streams{}), []string{"-n", "default", c.name, "x"})
		if n := len(alone.Commands()); n != 1 {
			t.Errorf("%s: %d commands", c.name, n)
			continue
		}
		want := grammar.Named(all, c.name)
		if want == nil {
			t.Errorf("the command %s has another name", c.name)
			continue
		}
		if got, want := helpOf(t, alone, alone.Commands()[0]), helpOf(t, all, want); got != want {
			t.Errorf("%s alone:\n%s\namong all commands:\n%s", c.name, got, want)
		}
	}
}

// These command lines require other commands than the one that they name.
func TestAllCommandsIfNeeded(t *testing.T) {
	global := newRoot(cli.New(cli.Streams{})).PersistentFlags()
	for _, line := range []string{"", "--help", "help apply", "completion bash", "__complete apply -", "ps", "container run busybox", "nosuch", "--nosuch apply", "-n default"} {
		if c := onlyCommand(global, strings.Fields(line)); c != nil {
			t.Errorf("%q requires only %s", line, c.name)
		}
	}
}
