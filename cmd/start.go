package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/run"
)

func newStart(a *app) *cobra.Command {
	var o run.ApplyOptions
	pick := &pickFlags{}
	c := &cobra.Command{
		Use:   "start NAME... | -l SELECTOR | --all",
		Short: "Start pods that were stopped",
		Long: `Start pods that 'podrun stop' has stopped. If a pod's restartPolicy does not restart the
containers that stop has killed, podrun recreates the pod, as 'podrun restart' does. A
pod that had ended before it was stopped does not run again.`,
		RunE: func(c *cobra.Command, given []string) error {
			return a.onPods(c, pick, given, run.UndoTimeout, func(ctx context.Context, e *run.Node, t run.Targets) (run.Report, error) {
				o.AllowKubelet = a.allowKubelet
				return run.Start(ctx, e, run.StartInput{Targets: t, Options: o})
			})
		},
	}
	a.addPodFlags(c, pick, &o.Timeout)
	return c
}
