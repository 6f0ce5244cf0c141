package cmd

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podrun/podrun/cmd/grammar"
)

// constructor creates one command.
type constructor struct {
	name string // the command's name
	make func(*app) *cobra.Command
}

// constructors are the constructors of all commands, in the order of the reference manual.
var constructors = []constructor{
	{"apply", newApply}, {"create", newCreate}, {"run", newRun}, {"wait", newWait}, {"restart", newRestart},
	{"stop", newStop}, {"start", newStart}, {"plan", newPlan}, {"diff", newDiff}, {"doctor", newDoctor},
	{"delete", newDelete}, {"gc", newGC}, {"get", newGet}, {"describe", newDescribe}, {"events", newEvents},
	{"logs", newLogs}, {"exec", newExec}, {"attach", newAttach}, {"port-forward", newPortForward}, {"cp", newCp},
	{"image", newImage}, {"serve", newServe}, {"service", newService}, {"version", newVersion},
	{"options", newOptions}, {"top", newTop}, {"explain", newExplain}, {"debug", newDebug},
	{"runtime", newRuntime}, {"set", newSet}, {"label", newLabel}, {"annotate", newAnnotate}, {"patch", newPatch},
	{"edit", newEdit}, {"rollout", newRollout}, {"scale", newScale},
}

// addAllCommands adds all commands and help topics.
func addAllCommands(root *cobra.Command, a *app) {
	for _, c := range constructors {
		root.AddCommand(c.make(a))
	}
	root.AddCommand(topics(root.PersistentFlags())...)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = root.Args, root.RunE
			addBashFunctions(c, a)
		}
	}
}

// onlyCommand returns the constructor of the command that a command line runs. It returns nil if the command line
// may require other commands: if it has no command of podrun, requests help or completions, or has words that
// translate converts. Creating all commands and their 600 flags would take 1 ms and 240 page faults at each start.
func onlyCommand(global *pflag.FlagSet, args []string) *constructor {
	if slices.ContainsFunc(args, isCompletionRequest) {
		return nil
	}
	at := grammar.WordsAt(global, args)
	if len(at) == 0 {
		return nil
	}
	first := args[at[0]]
	if len(at) > 1 {
		words := first + " " + args[at[1]]
		if _, converted := grammar.SameAs[words]; converted || grammar.UseInstead[words] != "" {
			return nil
		}
	}
	i := slices.IndexFunc(constructors, func(c constructor) bool { return c.name == first })
	if i < 0 {
		return nil
	}
	return &constructors[i]
}
