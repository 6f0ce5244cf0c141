package pods

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/run"
)

// NewStart returns the command start.
func NewStart(a *cli.App) *cobra.Command {
	var o run.ApplyOptions
	pick := &cli.PickFlags{}
	c := &cobra.Command{
		Use:   "start NAME... | -l SELECTOR | --all",
		Short: "Start pods that were stopped",
		Long: `Start pods that 'podrun stop' has stopped. If a pod's restartPolicy does not restart the
containers that stop has killed, podrun recreates the pod, as 'podrun restart' does. A
pod that had ended before it was stopped does not run again.`,
		RunE: func(c *cobra.Command, given []string) error {
			return onPods(a, c, pick, given, run.UndoTimeout, func(ctx context.Context, node *run.Node, t run.Targets) (run.Report, error) {
				o.AllowKubelet = a.AllowKubelet
				return run.Start(ctx, node, run.StartInput{Targets: t, Options: o})
			})
		},
	}
	addPodFlags(a, c, pick, &o.Timeout)
	return c
}
