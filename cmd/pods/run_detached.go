package pods

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/run/lifecycle"
)

// runDetached is apply for run -d.
func runDetached(a *cli.App, c *cobra.Command, f *runFlags, named []string) error {
	flags := c.Flags()
	if flags.Changed("rm") && f.remove {
		return problem.UsageError(errors.New("-d and --rm cannot be used together: podrun exits before the pod ends, and no process would remove the pod"),
			"omit --rm, and remove the pod with 'podrun delete NAME'; or omit -d")
	}
	for _, name := range []string{"exit-code-from", "exit-code-policy", "log-file"} {
		if flags.Changed(name) {
			return problem.UsageError(errors.New("--"+name+" cannot be used with -d, which does not wait until the pod ends"), "omit -d")
		}
	}
	if f.outputs.junit != "" {
		return problem.UsageError(errors.New("-o junit cannot be used with -d, which does not wait for the end of the pod"), "omit -d")
	}
	apply := &applyFlags{InputFlags: f.InputFlags, dryRun: f.dryRun, wait: string(lifecycle.GoalStarted), quiet: f.quiet}
	apply.Timeout = cli.DefaultTimeout
	// docker run and kubectl run print this
	if f.Generated != nil {
		apply.New, apply.NewHint = !f.Replace, "add --replace to replace it, use another --name, or remove it: 'podrun delete "+shellword.Quote(f.podName())+"'"
	}
	if flags.Changed("timeout") {
		apply.Timeout = f.Timeout
	} else {
		a.Limit(c, apply.Timeout)
	}
	return runApply(a, c, apply, named)
}
