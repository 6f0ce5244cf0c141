package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newOptions returns `podrun options`, which lists the global flags: in the help of each
// command they would obscure its own flags.
func newOptions() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the global flags, which all commands accept",
		Args:  args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "All commands accept these flags:\n\n%s", c.Root().PersistentFlags().FlagUsages())
			return err
		},
	}
}

// helpUsage prints the usage of a command as cobra does, but refers to `podrun options`
// for global flags. Like cobra's own function, it uses no template.
func helpUsage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprint(w, "Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(w, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", c.CommandPath())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(w, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	helpCommands(w, c)
	local := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if c.Root().PersistentFlags().Lookup(f.Name) == nil {
			local.AddFlag(f)
		}
	})
	if local.HasAvailableFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s\n", strings.TrimRight(local.FlagUsages(), " \n"))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := fmt.Fprintf(w, "\nUse \"podrun options\" for a list of the global flags, which all commands accept.\n")
	return err
}

func helpCommands(w io.Writer, c *cobra.Command) {
	if c.HasAvailableSubCommands() {
		fmt.Fprint(w, "\nAvailable Commands:\n")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(w, "  %-*s %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	if c.HasHelpSubCommands() {
		fmt.Fprint(w, "\nAdditional help topics:\n")
		for _, sub := range c.Commands() {
			if sub.IsAdditionalHelpTopicCommand() {
				fmt.Fprintf(w, "  %-*s %s\n", sub.CommandPathPadding(), sub.CommandPath(), sub.Short)
			}
		}
	}
}
