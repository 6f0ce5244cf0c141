package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/serve"
)

type deleteFlags struct {
	inputFlags
	run.DeleteOptions
	all, allNamespaces, force bool
	now, ignoreMissing        bool
	dryRun                    string
	graceSeconds              int64
	fileServices              map[string]*corev1.Service // in the files
	labels                    string
	fileWorkloads             map[identity.Pod]string // kinds of the workloads in the files
	foundWorkloads            bool                    // whether a dry run found a workload without pods
	deleted                   []run.WorkloadRecord    // the workloads that the command has marked as deleted
	jobs                      map[string][]run.Ref    // Jobs and CronJobs that the manifests define, by namespace
	jobOf                     map[string]run.Ref      // those whose pod has this namespace/name
	foundJobs                 map[jobRef]bool         // the Jobs and CronJobs that were deleted
}

// jobRef identifies a Job or CronJob.
type jobRef struct {
	namespace string
	run.Ref
}

func newDelete(a *app) *cobra.Command {
	f := &deleteFlags{}
	c := &cobra.Command{
		Use:   "delete NAME... | -f FILE",
		Short: "Stop pods and remove everything that podrun created for them",
		Long: `Stop pods, with their preStop hooks and grace period, and remove everything that
podrun created for them: containers, sandbox, network, mounts, directories,
cgroups and logs. podrun never changes the content of a hostPath, and keeps the
directories of claims in --pvc-dir unless --delete-volumes is set.

Select pods by name, by manifest (-f), by labels (-l), or all pods (--all). To select
the pod of a workload, name the workload, as in deploy/web or 'job db'. 'delete deploy
--all' deletes the pods of all Deployments, and 'delete all --all' deletes all pods,
Services, Jobs and CronJobs. 'delete --all' deletes only pods, and warns about the
Services, Jobs and CronJobs that remain. With -f, delete also deletes the Services of the files. 'delete svc
NAME' deletes only a Service.

For a Job or CronJob that 'podrun serve' runs, delete also deletes its pods and Jobs. If
a file of podrun serve defines the Job or CronJob, podrun does not run it again until its
definition in the file changes.

If a named pod does not exist, delete fails with exit code 1, unless --ignore-not-found
is set. If -f, -l or --all select no pods, delete succeeds. To complete an interrupted
delete, run it again.`,
		Example: `  podrun delete web
  podrun delete web --ignore-not-found
  podrun delete -f pod.yaml
  podrun delete --all --grace-period 5
  podrun delete svc web`,
		RunE: func(c *cobra.Command, named []string) error { return a.runDelete(c, f, named) },
	}
	f.add(c.Flags())
	f.relativePaths = true // delete uses only the names of pods, not their mounts
	f.services = true
	c.Flags().BoolVar(&f.all, "all", false, "all pods of the namespace")
	c.Flags().StringVarP(&f.labels, "selector", "l", "", "all pods of the namespace that match the label selector (app=web)")
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "with --all: the pods of all namespaces")
	c.Flags().Int64Var(&f.graceSeconds, "grace-period", -1, "grace period in `seconds`; -1 for the pod's terminationGracePeriodSeconds, 0 to kill immediately")
	c.Flags().BoolVar(&f.force, "force", false, "kill immediately, like --grace-period=0")
	c.Flags().BoolVar(&f.now, "now", false, "like --grace-period=1")
	c.Flags().BoolVar(&f.ignoreMissing, "ignore-not-found", false, "do not fail if a named pod does not exist; the default with -f")
	c.Flags().StringVar(&f.dryRun, "dry-run", dryNone, "client or server: print the pods and delete nothing")
	c.Flags().Lookup("dry-run").NoOptDefVal = dryServer
	c.Flags().BoolVar(&f.KeepLogs, "keep-logs", false, "keep the pod's logs")
	c.Flags().BoolVar(&f.DeleteVolumes, "delete-volumes", false, "also delete the pods' claims in --pvc-dir, with their data; keep claims that another pod uses")
	c.Flags().DurationVar(&f.Timeout, "timeout", defaultTimeout, "time limit; 0 for no limit")
	c.Flags().StringVarP(&a.output, "output", "o", "", "print the outcome as json, yaml or name")
	a.addQuiet(c)
	return c
}

func (a *app) runDelete(c *cobra.Command, f *deleteFlags, given []string) error {
	if names, ok := namedServices(given); ok && !a.isPodName(given) {
		return a.deleteServices(c, f, names)
	}
	kinds, named, err := parseSelected(given, f.all || f.labels != "")
	if err != nil {
		return err
	}
	if len(named) == 1 && len(given) == 1 && strings.EqualFold(given[0], "all") && !a.isPodName(given) {
		return usageHint(errors.New("'all' is a type of objects, and no name was specified"), "use 'podrun delete all --all' for all pods of the namespace, with the workloads that define them")
	}
	if err := f.check(c, named); err != nil {
		return err
	}
	if err := checkOutput(a.output, "json", "yaml", "name"); err != nil {
		return err
	}
	match, err := parseSelector(f.labels)
	if err != nil {
		return usage(c, err)
	}
	r := a.renderer()
	selectors, err := f.selectors(c, a)
	if err != nil {
		return err
	}
	engine, closeAll, err := a.rootEngine(c.Context(), r, run.RuntimeActs)
	if err != nil {
		return err
	}
	defer closeAll()
	if named, err = a.podsOfIDs(c.Context(), engine, named, sandboxID); err != nil {
		return err
	}
	ctx := c.Context()
	f.Basics = engine.ReadBasics(ctx)
	f.Found = !f.all && f.labels == ""
	if len(named) == 0 && !c.Flags().Changed("ignore-not-found") {
		f.ignoreMissing = true
	}
	named, jobs, err := a.deleteJobs(ctx, r, engine, f, kinds, named, match)
	if err != nil {
		return a.reportFailed(c.Context(), f, jobs, err)
	}
	var forget func() error
	f.deleted, forget, err = a.deleteWorkloads(ctx, engine, f, kinds, named, match)
	if err != nil {
		return a.reportFailed(c.Context(), f, jobs, err)
	}
	replicas, missing := f.replicas(a, engine, named)
	selectors = append(selectors, replicas...)
	pods, err := findAll(ctx, engine, selectors, func(sel run.Selector) { missing = errors.Join(missing, f.missing(a, sel)) })
	if err != nil {
		return a.reportFailed(c.Context(), f, jobs, err)
	}
	if f.all || f.labels != "" {
		pods = slices.DeleteFunc(pods, func(k run.Known) bool { return !kinds.selects(k, f.labels, match) })
	}
	if len(pods)+len(jobs)+len(f.deleted) == 0 && (f.all || f.labels != "") {
		r.note("no pods found")
	}
	selectsServices := f.servicesOf(given, match, a.namespaceOrDefault("default"))
	if f.dryRun != dryNone {
		return errors.Join(missing, a.printDryServices(c.Context(), engine, selectsServices), a.printDryPods(knownPods(pods), "would be deleted (dry run)"))
	}
	r.severalPods = len(pods) > 1
	a.trackWork(r, engine, idsOf(pods), 0)
	results, err := engine.Delete(ctx, pods, f.DeleteOptions)
	if err != nil {
		return a.reportFailed(c.Context(), f, jobs, err)
	}
	if err := forget(); err != nil {
		missing = errors.Join(missing, err)
	}
	a.noteWorkloads(r, f.deleted, pods)
	if a.services, err = engine.DeleteServices(ctx, selectsServices); err != nil {
		missing = errors.Join(missing, err)
	}
	hintInterrupted(results, "run the command again to complete the deletion; add --now to shorten the grace period to 1 s")
	for _, res := range results {
		if file := serve.SourceOf(engine, res.ID); file != "" && res.Err == nil {
			r.warn(problem.List{{Warning: true, Object: "pod " + res.ID.String(), Message: "podrun serve will start it again, because " + file + " defines it",
				Hint: "remove it from that file, or run 'podrun stop'"}})
		}
	}
	if f.all && len(kinds) == 0 {
		a.warnRemaining(c.Context(), r, engine, f)
	}
	results = append(jobs, results...)
	if len(results) == 0 && (missing != nil || len(f.foundJobs) > 0 || f.foundWorkloads || len(f.deleted) > 0) {
		return missing
	}
	return a.report(c.Context(), results, missing)
}

// reportFailed reports a delete that has failed before it deleted the selected pods: the pods of Jobs that
// it has deleted, and the workloads whose pods podrun serve no longer starts.
func (a *app) reportFailed(ctx context.Context, f *deleteFlags, jobs []run.Result, err error) error {
	for _, w := range f.deleted {
		fmt.Fprintf(a.streams.Err, "%s/%s is marked as deleted, but its pods may remain\n", resourceOf(w.Kind), w.ID.Name)
	}
	if len(jobs) == 0 {
		return err
	}
	return a.report(ctx, jobs, err)
}

// missing reports pods that were not found, as an error unless --ignore-not-found is set.
func (f *deleteFlags) missing(a *app, sel run.Selector) error {
	f.Found = false
	if len(sel.Names) == 0 {
		return nil
	}
	ref := run.Ref{Name: sel.Names[0]}
	if slices.ContainsFunc(f.deleted, func(w run.WorkloadRecord) bool { return isReplica(w, sel.Namespace, ref.Name) }) {
		return nil // podrun serve has removed it, because its workload is deleted
	}
	if job, of := f.jobOf[sel.Namespace+"/"+ref.Name]; of {
		if f.foundJobs[jobRef{sel.Namespace, job}] {
			return nil // the pod was deleted with the Job, or there was none
		}
		ref = job
	}
	return f.missingRef(a, ref, notFound(ref.Name))
}

// missingRef reports a named pod that was not found.
func (f *deleteFlags) missingRef(a *app, ref run.Ref, err error) error {
	f.Found = false
	if !f.ignoreMissing {
		return err
	}
	fmt.Fprintf(a.streams.Err, "%s not found\n", ref)
	return nil
}

// knownPods returns the pods as objects, with only their names if the checkpoint is
// unreadable.
func knownPods(known []run.Known) []corev1.Pod {
	var out []corev1.Pod
	for _, k := range known {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.ID.Namespace, Name: k.ID.Name}}
		if k.Pod != nil {
			pod = *k.Pod
		}
		out = append(out, pod)
	}
	return out
}

// check rejects contradictory flags and sets the grace period.
func (f *deleteFlags) check(c *cobra.Command, named []run.Ref) error {
	switch {
	case (f.all || f.labels != "") && (len(named) > 0 || f.hasFiles()):
		return usage(c, errors.New("--all and -l cannot be used with names or -f"))
	case !f.all && f.labels == "" && len(named) == 0 && !f.hasFiles():
		return usageHint(errors.New("specify pods by name, -f FILE, -l SELECTOR or --all"), "use 'podrun delete NAME', or 'podrun delete --all' for all pods of the namespace; run 'podrun get' to list them")
	case f.graceSeconds < -1:
		return usage(c, fmt.Errorf("--grace-period=%d is not a number of seconds", f.graceSeconds))
	case f.force && f.graceSeconds > 0:
		return usage(c, errors.New("--force kills immediately and cannot be used with a --grace-period other than 0"))
	case f.now && (f.force || f.graceSeconds >= 0):
		return usage(c, errors.New("--now cannot be used with --force or --grace-period"))
	case !slices.Contains([]string{dryNone, dryClient, dryServer}, f.dryRun):
		return usageHint(fmt.Errorf("--dry-run=%s is not one of none, client, server", f.dryRun), "use --dry-run=client")
	}
	if f.now {
		f.graceSeconds = 1
	}
	if f.force {
		f.graceSeconds = 0
	}
	if f.graceSeconds >= 0 {
		grace := time.Duration(f.graceSeconds) * time.Second
		f.Grace = &grace
	}
	return nil
}

// selectors returns the selectors of the pods to delete: one for each set of pods, and one for
// each pod in the files.
func (f *deleteFlags) selectors(c *cobra.Command, a *app) ([]run.Selector, error) {
	namespace := a.namespaceOrDefault("default")
	if f.all || f.labels != "" {
		if f.allNamespaces {
			namespace = ""
		}
		return []run.Selector{{Namespace: namespace}}, nil
	}
	if !f.hasFiles() {
		return nil, nil
	}
	objects, err := f.loadWithin(a, c, nil, func(problem.List) {})
	if err != nil {
		return nil, err
	}
	f.fileServices, f.jobs, f.jobOf = objects.Services, map[string][]run.Ref{}, map[string]run.Ref{}
	f.fileWorkloads = map[identity.Pod]string{}
	for _, w := range objects.Workloads {
		f.fileWorkloads[w.ID()] = w.Kind
	}
	var out []run.Selector
	for _, p := range objects.Pods {
		kind, name := p.WorkloadRef()
		if kind == "Job" || kind == "CronJob" {
			namespace, ref := p.Object.Namespace, run.Ref{Kind: kind, Name: name}
			f.jobs[namespace] = append(f.jobs[namespace], ref)
			f.jobOf[namespace+"/"+p.Object.Name] = ref
		}
		if manifest.IsReplicated(kind) {
			f.fileWorkloads[identity.Pod{Namespace: p.Object.Namespace, Name: name}] = kind
		}
		out = append(out, run.Selector{Namespace: p.Object.Namespace, Names: []string{p.Object.Name}})
	}
	return out, nil
}
