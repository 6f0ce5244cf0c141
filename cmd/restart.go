package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/run"
)

func newRestart(a *app) *cobra.Command {
	var o run.ApplyOptions
	c := &cobra.Command{
		Use:   "restart NAME...",
		Short: "Restart pods from the beginning",
		Long: `Restart pods as they were applied: stop their containers within the grace period,
remove them, and create them again. Use it to run a pod again that has ended.`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, named []string) error {
			return a.onPods(c, named, func(ctx context.Context, e *run.Engine, pods []run.Known) ([]run.Result, error) {
				o.AllowKubelet = a.allowKubelet
				return e.Restart(ctx, pods, o)
			})
		},
	}
	a.addPodFlags(c, &o.Timeout)
	return c
}

func newStop(a *app) *cobra.Command {
	var o run.DeleteOptions
	var grace int64
	c := &cobra.Command{
		Use:   "stop NAME...",
		Short: "Stop pods and keep their data",
		Long: `Stop pods, with their preStop hooks and grace period, and keep their directories,
volumes and logs. 'podrun start' starts them again, and restarts containers
according to restartPolicy.`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, named []string) error {
			if grace >= 0 {
				seconds := time.Duration(grace) * time.Second
				o.Grace = &seconds
			}
			return a.onPods(c, named, func(ctx context.Context, e *run.Engine, pods []run.Known) ([]run.Result, error) {
				return e.Stop(ctx, pods, o), nil
			})
		},
	}
	c.Flags().Int64Var(&grace, "grace-period", -1, "`seconds` that containers have to terminate; -1 for the pod's own, 0 to kill immediately")
	a.addPodFlags(c, &o.Timeout)
	return c
}

func newStart(a *app) *cobra.Command {
	var o run.ApplyOptions
	c := &cobra.Command{
		Use:   "start NAME...",
		Short: "Start pods that were stopped",
		Args:  args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, named []string) error {
			return a.onPods(c, named, func(ctx context.Context, e *run.Engine, pods []run.Known) ([]run.Result, error) {
				o.AllowKubelet = a.allowKubelet
				return e.Start(ctx, pods, o)
			})
		},
	}
	a.addPodFlags(c, &o.Timeout)
	return c
}

// addPodFlags adds the flags of commands that act on named pods.
func (a *app) addPodFlags(c *cobra.Command, timeout *time.Duration) {
	c.Flags().DurationVar(timeout, "timeout", defaultTimeout, "time limit; 0 for no limit")
	c.Flags().StringVarP(&a.output, "output", "o", "", "print the outcome as json, yaml or name")
}

// onPods does something with the pods of these names, and reports.
func (a *app) onPods(c *cobra.Command, named []string, do func(context.Context, *run.Engine, []run.Known) ([]run.Result, error)) error {
	if err := checkOutput(a.output, "json", "yaml", "name"); err != nil {
		return err
	}
	r := a.renderer()
	engine, closeAll, err := a.rootEngine(r)
	if err != nil {
		return err
	}
	defer closeAll()
	pods, err := a.named(c, engine, named, false)
	if err != nil {
		return err
	}
	r.many = len(pods) > 1
	results, err := do(c.Context(), engine, pods)
	if err != nil {
		return err
	}
	return a.report(c.Context(), results)
}
