package cmd

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/complete"
	"github.com/podrun/podrun/cmd/config"
	"github.com/podrun/podrun/cmd/exit"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run/ownruntime"
)

// Streams are the process's standard streams.
type Streams = cli.Streams

// Main runs the command line and returns its exit code. It catches signals (CatchSignals); a
// second signal of the same kind ends the process. Began is the time at which the process
// started, for --trace.
func Main(parent context.Context, args []string, streams cli.Streams, version string, began time.Time) int {
	if ownruntime.IsImageVerifier(os.Args) {
		return ownruntime.VerifyImage(parent, os.Args, streams.In, streams.Out)
	}
	a := cli.New(streams)
	defer a.FlushMessages()
	defer func() { a.Deadline.Release() }()
	ctx, stop := a.CatchSignals(parent)
	defer stop()
	a.Began = began
	a.Version = version
	a.Holder = "podrun"
	root := newRootFor(a, args)
	if slices.ContainsFunc(args, complete.IsCompletionRequest) {
		complete.AddCompletions(a, root)
		args = complete.TranslateRequest(root, args)
	}
	given := args
	args, err := grammar.Translate(root, given)
	a.Line.Typed, a.Line.DashAdded = args, slices.Contains(args, "--") && !slices.Contains(given, "--")
	if err != nil {
		a.Line.Typed = given
	}
	if err == nil {
		root.SetArgs(args)
		err = root.ExecuteContext(ctx)
		a.FinishTrace()
	}
	if err == nil {
		return exit.OK
	}
	if code, ok := errors.AsType[cli.ExitStatus](err); ok {
		return int(code)
	}
	err = cli.WithCause(ctx, err)
	if e, ok := errors.AsType[*problem.Error](err); ok {
		fillPaths(ctx, a, root, given, e)
	}
	a.PrintErrors(err)
	a.SummarizeFailure(err)
	return exit.Code(err)
}

// Commands returns podrun's commands with their flags and help, for hack/manual. The caller
// must not execute them.
func Commands() *cobra.Command {
	root := newRoot(cli.New(cli.Streams{Out: io.Discard, Err: io.Discard}))
	root.InitDefaultHelpCmd()
	return root
}

// newRoot returns the root command with all commands.
func newRoot(a *cli.App) *cobra.Command { return newRootFor(a, nil) }

// newRootFor returns the root command with the command that args run (onlyCommand), or with all commands.
func newRootFor(a *cli.App, args []string) *cobra.Command {
	root := newBareRoot(a)
	if only := onlyCommand(root.PersistentFlags(), args); only != nil {
		root.AddCommand(only.make(a))
		root.CompletionOptions.DisableDefaultCmd = true
	} else {
		addAllCommands(root, a)
	}
	return root
}

// newBareRoot returns the root command without commands.
func newBareRoot(a *cli.App) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "podrun",
		Short: "Run a Kubernetes Pod on this host, as the kubelet would, without a cluster",
		Long: `podrun runs a Kubernetes Pod on one host as the kubelet would, without a cluster,
from the same YAML that a cluster accepts.`,
		Example: `  podrun apply pod.yaml       start the pods of a manifest
  podrun logs -f web          follow the logs of the pod web
  podrun run job.yaml         run a pod to completion and exit with its exit code`,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			a.SetDeadline(c)
			a.Settings.Ctx, a.Holder = c.Context(), holderName(c)
			a.NamespaceGiven = c.Flags().Changed("namespace")
			if err := a.Settings.SetFromEnv(); err != nil {
				return err
			}
			if err := a.StartTrace(c); err != nil {
				return err
			}
			return loadSettings(a, c)
		},
		// Cobra's own check of the command's name would not cause the exit code of a usage error.
		Args: grammar.Args(grammar.KnownCommand),
		RunE: func(c *cobra.Command, _ []string) error {
			if version {
				return printVersion(a, newVersionInfo(a))
			}
			return c.Help()
		},
	}
	prepareRoot(a, root)
	root.Flags().BoolVar(&version, "version", false, "print the version of podrun (-v is --verbose)")
	return root
}

// prepareRoot sets the streams, the error handling and the global flags of a root command.
func prepareRoot(a *cli.App, root *cobra.Command) {
	root.SilenceUsage = true
	root.SilenceErrors = true
	root.DisableAutoGenTag = true
	root.SetIn(a.Streams.In)
	root.SetOut(a.Streams.Out)
	root.SetErr(a.Streams.Err)
	root.SetFlagErrorFunc(a.Line.FlagError)
	root.SetUsageFunc(func(c *cobra.Command) error { return helpUsage(a, c) })
	a.AddGlobalFlags(root.PersistentFlags())
}

// withoutSettings are the commands that do not require valid settings. Of these commands,
// version reads the settings if it queries the runtime, and service reads them for install.
var withoutSettings = []string{"help", "completion", "options", "explain", "version", "service", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}

// loadSettings reads the settings before a command runs, so that every command reports an
// invalid file in the same way.
func loadSettings(a *cli.App, c *cobra.Command) error {
	a.Settings.For = config.UseOf(c)
	command := c
	for c.HasParent() && c.Parent().HasParent() {
		c = c.Parent()
	}
	if !c.HasParent() || slices.Contains(withoutSettings, c.Name()) {
		return nil
	}
	if err := a.UseSettings(c); err != nil {
		return err
	}
	return enter(a, command)
}
