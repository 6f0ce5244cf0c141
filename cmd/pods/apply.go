package pods

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/shellword"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
	"github.com/podrun/podrun/run/ownruntime"
)

type applyFlags struct {
	cli.InputFlags
	run.ApplyOptions
	dryRun string
	wait   string
	prune  bool
	labels string
	quiet  bool
}

// NewApply returns the command apply.
func NewApply(a *cli.App) *cobra.Command {
	f := &applyFlags{InputFlags: cli.InputFlags{AllowReferred: true}}
	c := newApplyWith(a, f)
	// create has no updates to roll back
	c.Flags().BoolVar(&f.Rollback, "rollback", false, "with --wait=ready: if an update fails, restore the earlier definition of the pod")
	return c
}

// newApplyWith returns `podrun apply` with the given variables for its flags.
func newApplyWith(a *cli.App, f *applyFlags) *cobra.Command {
	c := &cobra.Command{
		Use:   "apply FILE...",
		Short: "Start the pods of a manifest",
		Long: `Start the pods of a manifest and return when each pod has started: its sandbox is
ready, all init containers have completed, all app containers have started and
all postStart hooks have finished.

podrun validates the manifest and checks that this host can run the pods before it
changes anything. If apply fails before the first container starts, it leaves
nothing behind except pulled images; if it fails later, it keeps the pod for
diagnosis.

With --wait=ready, apply also waits until the pods are ready. 'podrun wait --help'
describes when a container counts as ready. With --rollback, if an update of a pod
fails, apply restores the earlier definition of the pod, and of the other replicas of
its workload, and exits with the code of the failure.

apply is idempotent: it does not touch an unchanged pod, restarts terminated
containers according to restartPolicy, and updates or replaces a changed pod.

If a manifest has only ConfigMaps and Secrets, apply updates the pods that refer to
them: volumes without a restart, environment variables when a container starts again.

For a Job, apply runs one pod from the template once. CronJobs require 'podrun serve':
apply passes them to the podrun serve that is running for this root directory.

FILE is a path, a directory, - for stdin, or an https URL.`,
		Example: `  podrun apply pod.yaml
  kubectl get pod web -o yaml | podrun apply -
  podrun apply -f manifests/ --timeout 1m -o json`,
		RunE: func(c *cobra.Command, named []string) error { return runApply(a, c, f, named) },
	}
	f.Add(c.Flags())
	c.Flags().DurationVar(&f.Timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	c.Flags().BoolVar(&f.KeepOnFailure, "keep-on-failure", false, "do not roll back a pod that fails to start")
	c.Flags().StringVar(&f.wait, "wait", string(lifecycle.GoalStarted), "`condition` to wait for before apply returns: started, ready or completed")
	c.Flags().BoolVar(&f.Continue, "continue", false, "start the remaining pods if this host refuses some")
	c.Flags().BoolVar(&f.prune, "prune", false, "delete podrun's pods that match -l and are not in the manifest")
	c.Flags().StringVarP(&f.labels, "selector", "l", "", "with --prune: label selector of the pods to delete (app=web)")
	c.Flags().BoolVar(&f.Force, "force", false, "recreate the pods even if they are unchanged or have ended")
	c.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print neither events nor the notice about supervision")
	addDryRun(c.Flags(), &f.dryRun)
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print the outcome as json, yaml or name")
	return c
}

// pruneHint returns the hint for --prune without -l, or for -l without --prune. The label in the hint is
// one that all pods of the manifest have. With any other label, apply would also delete pods of other
// manifests.
func (f *applyFlags) pruneHint(a *cli.App, c *cobra.Command, named []string) string {
	if !f.prune {
		return "-l selects the pods that --prune deletes: omit -l to apply all pods of the manifest"
	}
	label, note := "", ""
	f.AllowEmpty = true
	if objects, err := f.LoadWithin(a, c, named, func(problem.List) {}); err == nil {
		label = commonLabel(objects)
	}
	if label == "" {
		label, note = "KEY=VALUE", " (a label of all pods of the manifest)"
	}
	return "use --prune -l " + shellword.Quote(label) + note + ": apply then deletes pods that have this label but are not in the manifest"
}

// commonLabel returns a label that all pods have, as KEY=VALUE: app or the recommended labels if possible, or
// "" if there is none.
func commonLabel(objects *manifest.Objects) string {
	var common map[string]string
	for i, p := range objects.Pods {
		if i == 0 {
			common = maps.Clone(p.Object.Labels)
		}
		maps.DeleteFunc(common, func(key, value string) bool {
			given, ok := p.Object.Labels[key]
			return !ok || given != value
		})
	}
	for _, key := range append([]string{"app", "app.kubernetes.io/instance", "app.kubernetes.io/name"}, slices.Sorted(maps.Keys(common))...) {
		if value, ok := common[key]; ok {
			return key + "=" + value
		}
	}
	return ""
}

func runApply(a *cli.App, c *cobra.Command, f *applyFlags, named []string) error {
	if f.New {
		f.CreateHint = f.NewHint
	}
	if done, err := dryRun(a, c, f.dryRun, &f.InputFlags, named); done {
		return err
	}
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
		return err
	}
	if f.prune != (f.labels != "") {
		return problem.UsageError(errors.New("--prune and -l SELECTOR must be used together"), f.pruneHint(a, c, named))
	}
	var err error
	f.Wait, err = lifecycle.ParseGoal(f.wait)
	if err != nil || !slices.Contains([]lifecycle.Goal{lifecycle.GoalStarted, lifecycle.GoalReady, lifecycle.GoalCompleted}, f.Wait) {
		return problem.UsageError(fmt.Errorf("--wait=%s is not started, ready or completed", f.wait),
			"use --wait=ready to wait for readiness, or --wait=completed to wait until the pods have ended")
	}
	if f.Rollback && (f.Wait != lifecycle.GoalReady || f.KeepOnFailure) {
		return problem.UsageError(errors.New("--rollback requires --wait=ready, and cannot be used with --keep-on-failure"), "use --wait=ready --rollback")
	}
	match, err := grammar.ParseSelector(f.labels)
	if err != nil {
		return grammar.Usage(c, err)
	}
	r := a.Renderer()
	r.Quiet = f.quiet
	f.ContinueOnError = f.Continue
	f.AllowEmpty = f.prune
	f.Services = true
	closeAhead := a.ReadAhead(r)
	defer closeAhead()
	objects, err := f.LoadWithin(a, c, named, exceptCronJobs(r.Warn))
	if err != nil {
		return err
	}
	f.AllowKubelet = a.AllowKubelet
	in := run.ApplyInput{CronJobs: run.CutCronJobs(objects), Objects: objects, Options: f.ApplyOptions, Incomplete: f.Invalid != nil}
	if f.prune {
		in.Prune = &run.Prune{Namespace: a.NamespaceOrDefault("default"), Match: match}
	}
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), r, ownruntime.Starts)
	if err != nil {
		return err
	}
	defer closeAll()
	r.SeveralPods = len(objects.Pods) > 1 || objects.OnlyReferred()
	a.TrackWork(r, node, cli.PodIDs(objects), run.UndoTimeout)
	report, err := run.Apply(c.Context(), node, in)
	if err != nil && !report.Started {
		a.PrintLines(report.Entries)
		return err
	}
	f.explainInterrupt(report.Entries, objects, named)
	err = errors.Join(f.Invalid, err)
	if f.Wait == lifecycle.GoalCompleted {
		return reportCompleted(a, report, err)
	}
	if !f.quiet {
		r.Warn(report.Notes)
	}
	err = a.Report(report, err)
	if pods := report.Pods(); a.Output == "" && len(pods) > 1 {
		r.Note(countOutcomes(pods))
	}
	return err
}

// exceptCronJobs returns a function that calls warn, but omits the notices that podrun runs the
// template of a CronJob once.
func exceptCronJobs(warn func(problem.List)) func(problem.List) {
	return func(l problem.List) {
		warn(slices.DeleteFunc(slices.Clone(l), func(p problem.Problem) bool {
			return p.Reason == manifest.ReasonTemplate && strings.HasPrefix(p.Object, "CronJob ")
		}))
	}
}

// countOutcomes returns the last line that a command prints for several pods: the number of
// pods for each outcome.
func countOutcomes(pods []run.Entry) string {
	var order []run.Outcome
	count := map[run.Outcome]int{}
	for _, e := range pods {
		outcome := e.Outcome
		if e.Err != nil {
			outcome = run.OutcomeFailed
		}
		if count[outcome]++; count[outcome] == 1 {
			order = append(order, outcome)
		}
	}
	parts := make([]string, len(order))
	for i, outcome := range order {
		parts[i] = fmt.Sprintf("%d %s", count[outcome], outcome)
	}
	return fmt.Sprintf("%d pods: %s", len(pods), strings.Join(parts, ", "))
}
