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
			return a.onPods(c, pick, given, &o.Timeout, run.UndoTimeout, func(ctx context.Context, e *run.Node, pods []run.Known) ([]run.Result, error) {
				o.AllowKubelet = a.allowKubelet
				return run.Restart(ctx, e, pods, o)
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

// idsOf returns the IDs of pods.
func idsOf(pods []run.Known) []identity.Pod {
	var out []identity.Pod
	for _, k := range pods {
		out = append(out, k.ID)
	}
	return out
}

// onPods calls do with the selected pods and the timeout, and reports the results. The
// parameter "undo" is how long "do" may continue after a signal; with 0, "do" stops immediately.
func (a *app) onPods(c *cobra.Command, pick *pickFlags, given []string, timeout *time.Duration, undo time.Duration, do func(context.Context, *run.Node, []run.Known) ([]run.Result, error)) error {
	if err := errors.Join(checkOutput(a.output, "json", "yaml", "name"), pick.check(c, given)); err != nil {
		return err
	}
	r := a.renderer()
	engine, closeAll, err := a.rootEngine(c.Context(), r, ownruntime.Acts)
	if err != nil {
		return err
	}
	defer closeAll()
	ctx := c.Context()
	pods, err := pick.pods(ctx, a, engine, pick.all && pick.selector == "")
	if err != nil {
		return err
	}
	if len(pods) == 0 { // --all without pods is not an error, as in delete
		r.note("no pods found")
		return a.report(run.Report{})
	}
	r.severalPods = len(pods) > 1
	a.trackWork(r, engine, idsOf(pods), undo)
	results, err := do(ctx, engine, pods)
	if err != nil {
		return err
	}
	return a.report(run.ReportOf(results))
}
