package cmd

import (
	"github.com/spf13/cobra"

	"github.com/podrun/podrun/run"
)

func newRestart(a *app) *cobra.Command {
	var o run.ApplyOptions
	c := &cobra.Command{
		Use:   "restart NAME...",
		Short: "Run pods again, from the start",
		Long: `Run pods again as they were applied: stop what still runs, with its grace
period, remove it, and start anew. The way to run a pod again that has ended.`,
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, named []string) error {
			if err := checkOutput(a.output, "json", "yaml", "name"); err != nil {
				return err
			}
			if err := needRoot(); err != nil {
				return err
			}
			r := a.renderer()
			engine, closeAll, err := a.engine(r)
			if err != nil {
				return err
			}
			defer closeAll()
			pods, err := a.named(c, engine, named, false)
			if err != nil {
				return err
			}
			r.many = len(pods) > 1
			o.AllowKubelet = a.allowKubelet
			results, err := engine.Restart(c.Context(), pods, o)
			if err != nil {
				return err
			}
			return a.report(c.Context(), results)
		},
	}
	c.Flags().DurationVar(&o.Timeout, "timeout", defaultTimeout, "how long to try; 0 for no limit")
	c.Flags().StringVarP(&a.output, "output", "o", "", "print the outcome as json, yaml or name")
	return c
}
