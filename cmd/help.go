package cmd

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
)

// commandGroups are the commands in the order of the help and of README.md.
var commandGroups = []struct {
	title    string
	commands []string
}{
	{"start pods", []string{"apply", "run", "create", "serve", "restart", "start", "diff", "plan"}},
	{"change pods", []string{"edit", "set", "patch", "label", "annotate", "rollout", "scale"}},
	{"inspect pods", []string{"get", "describe", "logs", "events", "top", "wait", "explain"}},
	{"work inside containers", []string{"exec", "attach", "debug", "port-forward", "cp"}},
	{"stop and remove", []string{"stop", "delete", "gc"}},
	{"images and the runtime", []string{"image", "runtime"}},
	{"the host", []string{"doctor", "service", "version", "completion", "options", "help"}},
}

// settingsHelp is the part of the help that follows the flags.
const settingsHelp = `
Settings:
Each global flag has an environment variable (PODRUN_ROOT_DIR for --root-dir), and
most have a field in /etc/podrun/config.yaml. A flag takes precedence over its
variable, and the variable over the file: see 'podrun help config'.
`

// newOptions returns `podrun options`, which lists the global flags. The help of each command
// omits them, so that its own flags are easy to find.
func newOptions(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the global flags, which all commands accept",
		Args:  grammar.Args(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "All commands accept these flags:\n\n%s", c.Root().PersistentFlags().FlagUsagesWrapped(helpWidth(a)))
			return err
		},
	}
}

// helpUsage prints the usage of a command as cobra does, but refers to `podrun options`
// for global flags. Like cobra's own function, it uses no template.
func helpUsage(a *cli.App, c *cobra.Command) error {
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
		fmt.Fprintf(w, "\nFlags:\n%s\n", strings.TrimRight(local.FlagUsagesWrapped(helpWidth(a)), " \n"))
	}
	if !c.HasParent() {
		fmt.Fprint(w, settingsHelp)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	_, err := fmt.Fprintf(w, "\nUse \"podrun options\" for a list of the global flags, which all commands accept.\n")
	return err
}

func helpCommands(w io.Writer, c *cobra.Command) {
	if !c.HasParent() {
		groupedCommands(w, c)
	} else if c.HasAvailableSubCommands() {
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

// groupedCommands prints the commands of podrun by group, and those of no group at the end.
func groupedCommands(w io.Writer, root *cobra.Command) {
	var grouped []string
	for _, g := range commandGroups {
		fmt.Fprintf(w, "\n%s:\n", strings.ToUpper(g.title[:1])+g.title[1:])
		for _, name := range g.commands {
			grouped = append(grouped, name)
			if c := grammar.Named(root, name); c != nil {
				fmt.Fprintf(w, "  %-*s %s\n", c.NamePadding(), name, c.Short)
			}
		}
	}
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && !slices.Contains(grouped, c.Name()) {
			fmt.Fprintf(w, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
		}
	}
}

// helpWidth returns the width of help texts in columns: the width of the terminal, but at least 60; 80 if
// the width of the terminal is unknown.
func helpWidth(a *cli.App) int {
	if width := a.ScreenOf(a.OutTerminal).Width; width > 0 {
		return max(width, 60)
	}
	return 80
}
