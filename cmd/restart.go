package cmd

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/ownruntime"
)

func newRestart(a *app) *cobra.Command {
	var o run.ApplyOptions
	pick := &pickFlags{}
	c := &cobra.Command{
		Use:   "restart NAME... | -l SELECTOR | --all",
		Short: "Restart pods from the beginning",
		Long: `Restart pods as they were applied: stop their containers within the grace period,
remove the pods, and create them again. restart also reruns a pod that has ended.
A pod that fails to start is kept and can be restarted.`,
		RunE: func(c *cobra.Command, given []string) error {
			return a.onPods(c, pick, given, run.UndoTimeout, func(ctx context.Context, e *run.Node, t run.Targets) (run.Report, error) {
				o.AllowKubelet = a.allowKubelet
				o.Force = true
				return run.Start(ctx, e, run.StartInput{Targets: t, Options: o})
			})
		},
	}
	a.addPodFlags(c, pick, &o.Timeout)
	return c
}

// addPodFlags adds the flags of commands that act on named pods.
func (a *app) addPodFlags(c *cobra.Command, pick *pickFlags, timeout *time.Duration) {
	pick.add(c.Flags())
	c.Flags().DurationVar(timeout, "timeout", defaultTimeout, "time limit; 0 for no limit")
	c.Flags().StringVarP(&a.output, "output", "o", "", "print the outcome as json, yaml or name")
	a.addQuiet(c)
}

// addQuiet adds -q to a command that prints events.
func (a *app) addQuiet(c *cobra.Command) {
	c.Flags().BoolVarP(&a.quiet, "quiet", "q", false, "do not print events")
}

// onPods calls an operation on the selected pods, and prints its report. The operation may continue for the time
// undo after a signal; 0 means that it stops immediately.
func (a *app) onPods(c *cobra.Command, pick *pickFlags, given []string, undo time.Duration, do func(context.Context, *run.Node, run.Targets) (run.Report, error)) error {
	if err := errors.Join(checkOutput(a.output, "json", "yaml", "name"), pick.check(c, given)); err != nil {
		return err
	}
	r := a.renderer()
	engine, closeAll, err := a.rootEngine(c.Context(), r, ownruntime.Acts)
	if err != nil {
		return err
	}
	defer closeAll()
	targets, err := pick.targets(c.Context(), a, engine, pick.everything())
	if err != nil {
		return err
	}
	targets.Working = a.working(r, engine, undo)
	report, err := do(c.Context(), engine, targets)
	switch {
	case err != nil && len(report.Entries) == 0:
		return err
	case len(report.Entries) == 0: // --all without pods is not an error, as in delete
		r.note("no pods found")
	}
	return a.report(report, err)
}

// working returns run.Targets.Working for a command; see trackWork for undo.
func (a *app) working(r *renderer, e *run.Node, undo time.Duration) func([]identity.Pod) {
	return func(pods []identity.Pod) {
		r.severalPods = len(pods) > 1
		a.trackWork(r, e, pods, undo)
	}
}
