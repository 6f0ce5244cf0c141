package pods

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/run"
)

// NewStop returns the command stop.
func NewStop(a *cli.App) *cobra.Command {
	var o run.DeleteOptions
	var grace int64
	pick := &cli.PickFlags{}
	c := &cobra.Command{
		Use:   "stop NAME... | -l SELECTOR | --all",
		Short: "Stop pods and keep their data",
		Long: `Stop pods, with their preStop hooks and grace period, and keep their directories,
volumes and logs. 'podrun start' starts them again, and restarts containers
according to restartPolicy.`,
		RunE: func(c *cobra.Command, given []string) error {
			if grace >= 0 {
				seconds := time.Duration(grace) * time.Second
				o.Grace = &seconds
			}
			return onPods(a, c, pick, given, 0, func(ctx context.Context, node *run.Node, t run.Targets) (run.Report, error) {
				return run.Stop(ctx, node, run.StopInput{Targets: t, Options: o})
			})
		},
	}
	c.Flags().Int64Var(&grace, "grace-period", -1, "grace period in `seconds`; -1 for the pod's terminationGracePeriodSeconds, 0 to kill immediately")
	c.Flags().Int64VarP(&grace, "time", "t", -1, "like --grace-period")
	c.Flags().Lookup("time").Hidden = true // docker's name
	addPodFlags(a, c, pick, &o.Timeout)
	return c
}
