package pods

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
)

// NewRestart returns the command restart.
func NewRestart(a *cli.App) *cobra.Command {
	var o run.ApplyOptions
	pick := &cli.PickFlags{}
	c := &cobra.Command{
		Use:   "restart NAME... | -l SELECTOR | --all",
		Short: "Restart pods from the beginning",
		Long: `Restart pods as they were applied: stop their containers within the grace period,
remove the pods, and create them again. restart also reruns a pod that has ended.
A pod that fails to start is kept and can be restarted.`,
		RunE: func(c *cobra.Command, given []string) error {
			return onPods(a, c, pick, given, run.UndoTimeout, func(ctx context.Context, node *run.Node, t run.Targets) (run.Report, error) {
				o.AllowKubelet = a.AllowKubelet
				o.Force = true
				return run.Start(ctx, node, run.StartInput{Targets: t, Options: o})
			})
		},
	}
	addPodFlags(a, c, pick, &o.Timeout)
	return c
}

// addPodFlags adds the flags of commands that act on named pods.
func addPodFlags(a *cli.App, c *cobra.Command, pick *cli.PickFlags, timeout *time.Duration) {
	pick.Add(c.Flags())
	c.Flags().DurationVar(timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print the outcome as json, yaml or name")
	a.AddQuiet(c)
}

// onPods calls an operation on the selected pods, and prints its report. The operation may continue for the time
// undo after a signal; 0 means that it stops immediately.
func onPods(a *cli.App, c *cobra.Command, pick *cli.PickFlags, given []string, undo time.Duration, do func(context.Context, *run.Node, run.Targets) (run.Report, error)) error {
	if err := errors.Join(cli.CheckOutput(a.Output, "json", "yaml", "name"), pick.Check(c, given)); err != nil {
		return err
	}
	r := a.Renderer()
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), r, ownruntime.Acts)
	if err != nil {
		return err
	}
	defer closeAll()
	targets, err := pick.Targets(c.Context(), a, node, pick.Everything())
	if err != nil {
		return err
	}
	targets.Working = a.Working(r, node, undo)
	report, err := do(c.Context(), node, targets)
	switch {
	case err != nil && len(report.Entries) == 0:
		return err
	case len(report.Entries) == 0: // --all without pods is not an error, as in delete
		r.Note("no pods found")
	}
	return a.Report(report, err)
}
