package cmd

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/change"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/complete"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/images"
	"github.com/podrun/podrun/cmd/inside"
	"github.com/podrun/podrun/cmd/inspect"
	"github.com/podrun/podrun/cmd/pods"
	"github.com/podrun/podrun/cmd/system"
)

// constructor creates one command.
type constructor struct {
	name string // the command's name
	make func(*cli.App) *cobra.Command
}

// constructors are the constructors of all commands, in the order of the reference manual.
var constructors = []constructor{
	{"apply", pods.NewApply}, {"create", pods.NewCreate}, {"run", pods.NewRun}, {"wait", pods.NewWait}, {"restart", pods.NewRestart},
	{"stop", pods.NewStop}, {"start", pods.NewStart}, {"plan", pods.NewPlan}, {"diff", pods.NewDiff}, {"doctor", system.NewDoctor},
	{"delete", pods.NewDelete}, {"gc", system.NewGC}, {"get", inspect.NewGet}, {"describe", inspect.NewDescribe}, {"events", inspect.NewEvents},
	{"logs", inspect.NewLogs}, {"exec", inside.NewExec}, {"attach", inside.NewAttach}, {"port-forward", inside.NewPortForward}, {"cp", inside.NewCp},
	{"image", images.NewImage}, {"serve", system.NewServe}, {"service", system.NewService}, {"version", newVersion},
	{"options", newOptions}, {"top", inspect.NewTop}, {"explain", inspect.NewExplain}, {"debug", inside.NewDebug},
	{"runtime", system.NewRuntime}, {"set", change.NewSet}, {"label", change.NewLabel}, {"annotate", change.NewAnnotate}, {"patch", change.NewPatch},
	{"edit", change.NewEdit}, {"rollout", change.NewRollout}, {"scale", change.NewScale},
}

// addAllCommands adds all commands and help topics.
func addAllCommands(root *cobra.Command, a *cli.App) {
	for _, c := range constructors {
		root.AddCommand(c.make(a))
	}
	root.AddCommand(topics(root.PersistentFlags())...)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = root.Args, root.RunE
			complete.AddBashFunctions(c, a)
		}
	}
}

// onlyCommand returns the constructor of the command that a command line runs. It returns nil if the command line
// may require other commands: if it has no command of podrun, requests help or completions, or has words that
// translate converts. Creating all commands and their 600 flags would take 1 ms and 240 page faults at each start.
func onlyCommand(global *pflag.FlagSet, args []string) *constructor {
	if slices.ContainsFunc(args, complete.IsCompletionRequest) {
		return nil
	}
	at := grammar.CommandAt(global, args)
	if at < 0 {
		return nil
	}
	first := args[at]
	if len(args) > at+1 && grammar.IsForeign(first+" "+args[at+1]) {
		return nil
	}
	i := slices.IndexFunc(constructors, func(c constructor) bool { return c.name == first })
	if i < 0 {
		return nil
	}
	return &constructors[i]
}
