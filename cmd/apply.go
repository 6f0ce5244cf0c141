package cmd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lifecycle"
)

// defaultTimeout is the default of --timeout.
const defaultTimeout = 10 * time.Minute

type applyFlags struct {
	inputFlags
	run.ApplyOptions
	dryRun string
	wait   string
	prune  bool
	labels string
	quiet  bool
}

func newApply(a *app) *cobra.Command { return newApplyWith(a, &applyFlags{}) }

// newApplyWith returns `podrun apply` with the given variables for its flags.
func newApplyWith(a *app, f *applyFlags) *cobra.Command {
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
describes when a container counts as ready.

apply is idempotent: it does not touch an unchanged pod, restarts terminated
containers according to restartPolicy, and updates or replaces a changed pod.

For a Job, apply runs one pod from the template once. CronJobs require 'podrun serve':
apply passes them to the podrun serve that is running for this root directory.

FILE is a path, a directory, - for stdin, or an https URL.`,
		Example: `  podrun apply pod.yaml
  kubectl get pod web -o yaml | podrun apply -
  podrun apply -f manifests/ --timeout 1m -o json`,
		RunE: func(c *cobra.Command, named []string) error { return a.runApply(c, f, named) },
	}
	f.add(c.Flags())
	c.Flags().DurationVar(&f.Timeout, "timeout", defaultTimeout, "time limit; 0 for no limit")
	c.Flags().BoolVar(&f.KeepOnFailure, "keep-on-failure", false, "do not roll back a pod that fails to start")
	c.Flags().StringVar(&f.wait, "wait", string(lifecycle.GoalStarted), "`condition` to wait for before apply returns: started, ready or completed")
	c.Flags().BoolVar(&f.Continue, "continue", false, "start the remaining pods if this host refuses some")
	c.Flags().BoolVar(&f.prune, "prune", false, "delete podrun's pods that match -l and are not in the manifest")
	c.Flags().StringVarP(&f.labels, "selector", "l", "", "with --prune: label selector of the pods to delete (app=web)")
	c.Flags().BoolVar(&f.Force, "force", false, "recreate the pods even if they are unchanged or have ended")
	c.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print neither events nor the notice about supervision")
	addDryRun(c.Flags(), &f.dryRun)
	c.Flags().StringVarP(&a.output, "output", "o", "", "print the outcome as json, yaml or name")
	return c
}

// pruneHint returns the hint for --prune without -l, or for -l without --prune. The label in the hint is
// one that all pods of the manifest have. With any other label, apply would also delete pods of other
// manifests.
func (f *applyFlags) pruneHint(a *app, c *cobra.Command, named []string) string {
	if !f.prune {
		return "-l selects the pods that --prune deletes: omit -l to apply all pods of the manifest"
	}
	label, note := "", ""
	f.allowEmpty = true
	if objects, err := f.loadWithin(a, c, named, func(problem.List) {}); err == nil {
		label = commonLabel(objects)
	}
	if label == "" {
		label, note = "KEY=VALUE", " (a label of all pods of the manifest)"
	}
	return "use --prune -l " + shellWord(label) + note + ": apply then deletes pods that have this label but are not in the manifest"
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

func (a *app) runApply(c *cobra.Command, f *applyFlags, named []string) error {
	if f.New {
		f.newHint = f.NewHint
	}
	if done, err := a.dryRun(c, f.dryRun, &f.inputFlags, named); done {
		return err
	}
	if err := checkOutput(a.output, "json", "yaml", "name"); err != nil {
		return err
	}
	if f.prune != (f.labels != "") {
		return usageHint(errors.New("--prune and -l SELECTOR must be used together"), f.pruneHint(a, c, named))
	}
	var err error
	f.Wait, err = lifecycle.ParseGoal(f.wait)
	if err != nil || !slices.Contains([]lifecycle.Goal{lifecycle.GoalStarted, lifecycle.GoalReady, lifecycle.GoalCompleted}, f.Wait) {
		return usageHint(fmt.Errorf("--wait=%s is not started, ready or completed", f.wait),
			"use --wait=ready to wait for readiness, or --wait=completed to wait until the pods have ended")
	}
	r := a.renderer()
	r.quiet, f.continueOnError, f.allowEmpty, f.services = f.quiet, f.Continue, f.prune, true
	closeAhead := a.readAhead(r)
	defer closeAhead()
	objects, err := f.loadWithin(a, c, named, exceptCronJobs(r.warn))
	if err != nil {
		return err
	}
	cronJobs := cutCronJobs(objects)
	engine, closeAll, err := a.rootEngine(c.Context(), r, run.RuntimeStarts)
	if err != nil {
		return err
	}
	defer closeAll()
	if err := a.applyCronJobs(c.Context(), r, engine, objects, cronJobs); err != nil {
		return err
	}
	if len(cronJobs) > 0 && len(objects.Pods) == 0 && !f.prune {
		return a.applyServicesAlone(c.Context(), r, engine, objects)
	}
	r.severalPods = len(objects.Pods) > 1
	f.AllowKubelet = a.allowKubelet
	a.trackWork(r, engine, podIDs(objects), run.UndoTimeout)
	services, undo, err := a.applyServices(c.Context(), r, engine, objects)
	if err != nil {
		return errors.Join(err, undo())
	}
	results, err := engine.Apply(c.Context(), objects, f.ApplyOptions)
	if err != nil {
		return errors.Join(err, undo())
	}
	surplus, err := engine.RemoveSurplus(c.Context(), objects)
	f.invalid = errors.Join(f.invalid, err)
	if noneLeft(engine, results) {
		services, err = nil, undo()
	} else {
		err = a.updateServices(c.Context(), r, engine, objects)
	}
	f.invalid = errors.Join(f.invalid, err)
	a.services = services
	f.explainInterrupt(objects, results, named, engine.Remaining)
	removed := surplus
	if f.prune {
		pruned, err := f.pruneRest(a, c, engine, objects, results)
		if err != nil {
			return a.report(c.Context(), slices.Concat(results, surplus), err)
		}
		removed = append(pruned, surplus...)
		if err := f.pruneServices(a, c, engine, objects, slices.Concat(results, pruned)); err != nil {
			return a.report(c.Context(), slices.Concat(results, removed), err)
		}
	}
	if f.Wait == lifecycle.GoalCompleted {
		return a.reportCompleted(f, objects, results, removed)
	}
	results = append(results, removed...)
	if !engine.Supervised() && !f.quiet {
		a.warnUnwatched(r, objects, results)
		a.warnServicesKept(r, services)
	}
	err = a.report(c.Context(), results, f.invalid)
	if a.output == "" && len(results) > 1 {
		r.note(countOutcomes(results))
	}
	return err
}

// countOutcomes returns the last line that a command prints for several pods: the number of
// pods for each outcome.
func countOutcomes(results []run.Result) string {
	var order []run.Outcome
	count := map[run.Outcome]int{}
	for _, r := range results {
		outcome := r.Outcome
		if r.Err != nil {
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
	return fmt.Sprintf("%d pods: %s", len(results), strings.Join(parts, ", "))
}

// pruneRest deletes the pods that the manifest no longer contains. If the command failed, it
// deletes no pod: a pod that did not start may depend on one of them, and an invalid file may
// define a pod that appears to be missing.
func (f *applyFlags) pruneRest(a *app, c *cobra.Command, e *run.Engine, objects *manifest.Objects, results []run.Result) ([]run.Result, error) {
	match, err := parseSelector(f.labels)
	if err != nil {
		return nil, usage(c, err)
	}
	if f.invalid != nil || slices.ContainsFunc(results, func(r run.Result) bool { return r.Err != nil }) {
		return nil, nil
	}
	return e.Prune(c.Context(), objects, a.namespaceOrDefault("default"), match, run.DeleteOptions{})
}

// reportCompleted prints the exit codes of the pods of the manifest, and the outcomes of the removed
// pods. It returns an error with the exit code of the command.
func (a *app) reportCompleted(f *applyFlags, objects *manifest.Objects, results, removed []run.Result) error {
	ended := make([]run.RunResult, len(results))
	for i, res := range results {
		res.Containers = lifecycle.EndedContainers(objects.Pods[i].Object, res.Status)
		ended[i] = run.RunResult{Result: res}
	}
	a.printLines(summary{Services: serviceResults(a.services)})
	a.printCompleted(results)
	a.printLines(summary{Pods: resultsOf(removed)})
	return a.reportRun(ended, &runFlags{inputFlags: f.inputFlags, policy: string(lifecycle.ExitAny)}, removed...)
}

// printCompleted prints a line for each pod that has completed, unless the output is the
// summary of reportRun.
func (a *app) printCompleted(results []run.Result) {
	for _, r := range results {
		switch {
		case r.Err != nil:
		case a.output == "name":
			fmt.Fprintf(a.streams.Out, "pod/%s\n", r.ID.Name)
		case a.output == "" && r.Status.Phase == corev1.PodFailed:
			fmt.Fprintf(a.streams.Out, "pod/%s failed\n", r.ID.Name)
		case a.output == "":
			fmt.Fprintf(a.streams.Out, "pod/%s completed\n", r.ID.Name)
		}
	}
}

// warnUnwatched prints one warning with the settings of the pods that are no longer
// enforced when podrun exits, if there are any.
func (a *app) warnUnwatched(r *renderer, objects *manifest.Objects, results []run.Result) {
	var wants []string
	for i, p := range objects.Pods {
		if i < len(results) && results[i].Err == nil && results[i].Outcome != run.OutcomeUnchanged {
			wants = append(wants, lifecycle.Unenforced(p.Object)...)
		}
	}
	if len(wants) > 0 {
		r.warn(problem.List{{Warning: true, Message: "podrun exits now and no longer enforces " + strings.Join(dedupe(wants), ", "),
			Hint: "use 'podrun serve' for supervision, or run 'podrun apply' again to restart terminated containers"}})
	}
}

func dedupe(list []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// podResult describes a pod in the JSON summary.
type podResult struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	UID       string   `json:"uid"`
	Outcome   string   `json:"outcome"`
	What      []string `json:"what,omitempty"` // changed fields, or restarted containers
	Phase     string   `json:"phase,omitempty"`
	PodIP     string   `json:"podIP,omitempty"`
	Error     string   `json:"error,omitempty"`
	// Problems are the problems in Error, each with its object and, if known, its reason.
	Problems problem.List `json:"problems,omitempty"`
	// Containers describes how the containers of a deleted pod exited.
	Containers []lifecycle.Ended `json:"containers,omitempty"`
}

// summary is the output of apply and delete with -o json.
type summary struct {
	Pods     []podResult     `json:"pods"`
	Services []serviceResult `json:"services,omitempty"`
	ExitCode int             `json:"exitCode"`
	Reason   string          `json:"reason"`
	// Error and Problems are set if the command failed before it processed any pod.
	Error    string       `json:"error,omitempty"`
	Problems problem.List `json:"problems,omitempty"`
}

// summarizeFailure prints the summary of a command that failed before it had
// any results.
func (a *app) summarizeFailure(err error) {
	if !a.summaryDue || a.output != "json" && a.output != "yaml" {
		return
	}
	code := exitCode(err)
	sum := summary{Pods: []podResult{}, ExitCode: code, Reason: exitReason(code), Error: shownText(err.Error())}
	eachError(err, func(each error) {
		if e, ok := errors.AsType[*problem.Error](each); ok {
			sum.Problems = append(sum.Problems, shownProblems(e.Problems)...)
		}
	})
	// A failed write is not reported: the error of the command is more important, and is already
	// on stderr.
	_ = printData(a.raw.Out, a.output, sum)
}

func resultOf(r run.Result) podResult {
	p := podResult{Namespace: r.ID.Namespace, Name: r.ID.Name, UID: r.ID.UID, Outcome: string(r.Outcome), What: r.What,
		Phase: string(r.Status.Phase), PodIP: r.Status.PodIP, Containers: r.Containers}
	if r.Err != nil {
		p.Error = shownText(r.Err.Error())
		eachError(r.Err, func(each error) { p.Problems = append(p.Problems, shownProblems(problem.Of(each))...) })
	}
	return p
}

func resultsOf(results []run.Result) []podResult {
	out := make([]podResult, len(results))
	for i, r := range results {
		out[i] = resultOf(r)
	}
	return out
}

// report prints the outcomes of the pods, and returns their errors joined with others.
func (a *app) report(ctx context.Context, results []run.Result, others ...error) error {
	errs := others
	sum := summary{Pods: resultsOf(results), Services: serviceResults(a.services)}
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	err := errors.Join(errs...)
	sum.ExitCode = exitCode(err)
	sum.Reason = exitReason(sum.ExitCode)
	if perr := a.printResults(sum); perr != nil {
		return errors.Join(err, perr)
	}
	return err
}

func (a *app) printResults(sum summary) error {
	a.summaryDue = false
	if a.output == "json" || a.output == "yaml" {
		return printData(a.raw.Out, a.output, sum)
	}
	a.printLines(sum)
	return nil
}

// printLines prints a line for each Service and pod, unless the output is JSON or YAML.
func (a *app) printLines(sum summary) {
	switch a.output {
	case "json", "yaml":
		return
	case "name":
		for _, s := range sum.Services {
			fmt.Fprintf(a.streams.Out, "service/%s\n", s.Name)
		}
		for _, p := range sum.Pods {
			if p.Error == "" {
				fmt.Fprintf(a.streams.Out, "pod/%s\n", p.Name)
			}
		}
		return
	}
	for _, s := range sum.Services {
		fmt.Fprintf(a.streams.Out, "service/%s %s\n", s.Name, s.Outcome)
	}
	for _, p := range sum.Pods {
		if p.Error == "" || len(reasonsOf(p.Problems)) > 0 {
			fmt.Fprintln(a.streams.Out, a.screenOf(a.outTerminal).wrap(escape("pod/"+p.Name+" "+outcomeText(p))))
		}
	}
}

// reasonsOf returns the distinct reasons of problems.
func reasonsOf(l problem.List) []string {
	var out []string
	for _, p := range l {
		if p.Reason != "" {
			out = append(out, p.Reason)
		}
	}
	return dedupe(out)
}

// outcomeText returns the outcome with its details, such as "replaced: spec.hostname
// changed" or "failed: CreateContainerError".
func outcomeText(p podResult) string {
	text := p.Outcome
	if p.Error != "" {
		return text + ": " + strings.Join(reasonsOf(p.Problems), ", ")
	}
	if len(p.What) > 0 {
		text += ": " + strings.Join(p.What, ", ")
	}
	if p.Outcome == string(run.OutcomeReplaced) && len(p.What) > 0 {
		text += " changed"
	}
	return text
}

// renderer returns the renderer for the messages of a command that prints a summary at
// its end.
func (a *app) renderer() *renderer {
	a.summaryDue = true
	a.jsonMessages = a.output == "json"
	a.surviveBrokenPipes()
	return a.messageRenderer()
}
