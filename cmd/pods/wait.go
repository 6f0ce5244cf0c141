package pods

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/internal/wait"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

// NewWait returns the command wait.
func NewWait(a *cli.App) *cobra.Command {
	var o run.WaitOptions
	var what string
	pick := &cli.PickFlags{}
	c := &cobra.Command{
		Use:   "wait NAME... | -l SELECTOR | --all",
		Short: "Wait until pods are ready, completed or deleted",
		Long: `Wait until pods are ready (--for=condition=Ready), have a phase (--for=phase=Running),
have completed (--for=completed), exist (--for=create) or are deleted (--for=delete), or
until a field of their status exists or has a value (--for=jsonpath='{.status.podIP}',
--for=jsonpath='{.status.phase}'=Running). Values are not case-sensitive, except those of
fields. With --for=condition=TYPE=False, wait until the condition is false. For a
Job or Deployment, wait also accepts the conditions complete, failed and available, which
correspond to the phase or the readiness of its pod. For a Job that 'podrun serve' runs,
these are the conditions of the Job itself.

While it waits, podrun restarts the pods' containers and runs their probes.

A container without a readiness probe counts as ready when it has run for a second. A
container that restarted after an exit counts as ready when it has run longer than
before that exit, or for 10 seconds. Therefore, a container that exits soon after each
start does not count as ready.

The exit code is 0 when the condition is met and 124 when the timeout expires. With
--for=completed, podrun exits with the exit code of the pod, as 'podrun run' does.`,
		Example: `  podrun wait web --for=condition=Ready --timeout 30s
  podrun wait job --for=completed
  podrun wait --for=condition=complete job/backup --timeout 1h`,
		RunE: func(c *cobra.Command, given []string) error {
			if strings.EqualFold(what, "create") {
				return waitCreated(a, c, pick, given, o)
			}
			goal, err := lifecycle.ParseGoal(what)
			if err != nil {
				hint := "use --for=started for the start of all containers, --for=condition=Ready for readiness, or --for=completed for the end of a pod"
				return problem.UsageError(fmt.Errorf("--for: %w", err), hint)
			}
			o.For = goal
			if workload := ofWorkload(what, given); workload != "" {
				return problem.UsageError(fmt.Errorf("--for=%s: for the workload %s, wait does not read its status", what, workload), "use --for=condition=Available, or --for=condition=Complete for a Job")
			}
			return runWait(a, c, pick, given, o)
		},
	}
	pick.Add(c.Flags())
	c.Flags().StringVar(&what, "for", string(lifecycle.GoalReady), "ready, started, completed, create, delete, condition=TYPE, phase=PHASE or jsonpath={.status.FIELD}[=VALUE]")
	c.Flags().DurationVar(&o.Timeout, "timeout", cli.DefaultTimeout, "how long to wait; 0 for no limit")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print the outcome as json, yaml or name")
	a.AddQuiet(c)
	return c
}

func runWait(a *cli.App, c *cobra.Command, pick *cli.PickFlags, given []string, o run.WaitOptions) error {
	if err := pick.Check(c, given); err != nil {
		return err
	}
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
		return err
	}
	r := a.Renderer()
	node, closeAll, err := a.OpenNode(c.Context(), r, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	ctx := c.Context()
	if waited, err := waitJobs(ctx, a, node, pick, o); err != nil || waited && len(pick.Named) == 0 {
		return err
	}
	pods, err := pick.Pods(ctx, a, node, o.For == lifecycle.GoalDeleted)
	if err != nil {
		return err
	}
	r.SeveralPods = len(pods) > 1
	// docker wait waits for the end, and prints the exit code.
	if !c.Flags().Changed("for") && a.Output == "" && !a.Quiet {
		fmt.Fprintln(a.Streams.Err, "waiting for readiness; to wait for the end of the pod and its exit code, use 'podrun "+shellword.Join(append(slices.Clone(a.Line.Typed), "--for=completed"))+"'")
	}
	report := run.WaitAll(ctx, node, run.KnownOf(pods), o)
	if o.For != lifecycle.GoalCompleted {
		return a.Report(report)
	}
	printCompleted(a, report.Entries)
	return reportRun(a, report, nil, endPolicy{policy: lifecycle.ExitAny})
}

// ofWorkload returns the first argument that names a workload if a goal is a JSONPath expression, which podrun evaluates
// for pods only, or "".
func ofWorkload(what string, given []string) string {
	if kind, _, _ := strings.Cut(what, "="); !strings.EqualFold(kind, "jsonpath") || strings.Contains(what, ".status.phase}=") {
		return ""
	}
	for _, word := range given {
		if kind, _, _ := strings.Cut(word, "/"); apikind.WorkloadKind(kind) != "" {
			return word
		}
	}
	return ""
}

// createPoll is the interval at which awaitCreated calls find.
const createPoll = 100 * time.Millisecond

// waitCreated waits until the selected pods exist: all named ones, or one that a selector matches.
func waitCreated(a *cli.App, c *cobra.Command, pick *cli.PickFlags, given []string, o run.WaitOptions) error {
	if err := pick.Check(c, given); err != nil {
		return err
	}
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
		return err
	}
	ctx, cancel := wait.WithTimeout(c.Context(), o.Timeout)
	defer cancel()
	node, closeAll, err := a.OpenNode(ctx, a.Renderer(), ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	pods, err := awaitCreated(ctx, shellword.Join(given), func() ([]run.Target, error) { return pick.Pods(ctx, a, node, false) })
	if err != nil {
		return err
	}
	var results []run.Result
	for _, p := range pods {
		results = append(results, run.Result{ID: p.ID, Outcome: run.OutcomeMet})
	}
	return a.Report(run.ReportOf(results))
}

// awaitCreated calls find until it does not return problem.ErrNotFound, and returns its result. If ctx ends between two
// calls, the error is a *problem.Error of kind Deadline for object.
func awaitCreated[T any](ctx context.Context, object string, find func() (T, error)) (T, error) {
	for {
		found, err := find()
		if !errors.Is(err, problem.ErrNotFound) {
			return found, err
		}
		if wait.Sleep(ctx, createPoll) != nil {
			return found, &problem.Error{Kind: problem.Deadline, Object: object, Err: errors.New("not created in time"), Hint: "increase --timeout"}
		}
	}
}

// waitJobs waits for the Jobs of 'podrun serve' among the arguments, and removes them from the
// arguments. waited is true if there are any.
func waitJobs(ctx context.Context, a *cli.App, node *run.Node, pick *cli.PickFlags, o run.WaitOptions) (waited bool, err error) {
	if !slices.Contains([]lifecycle.Goal{lifecycle.GoalSucceeded, lifecycle.GoalFailed, lifecycle.GoalCompleted, lifecycle.GoalDeleted}, o.For) {
		return false, nil
	}
	var rest []lookup.Ref
	for _, ref := range pick.Named {
		if ref.Kind != "Job" {
			rest = append(rest, ref)
			continue
		}
		found, err := run.WaitJob(ctx, node, a.NamespaceOrDefault("default"), ref.Name, o.For)
		switch {
		case err != nil:
			return waited, err
		case !found:
			rest = append(rest, ref)
			continue
		case a.Output == "name":
			fmt.Fprintln(a.Streams.Out, "job.batch/"+ref.Name)
		case a.Output == "" && !a.Quiet:
			fmt.Fprintln(a.Streams.Out, "job.batch/"+ref.Name+" condition met")
		}
		waited = true
	}
	pick.Named = rest
	return waited, nil
}
