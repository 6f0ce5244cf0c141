package pods

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

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
	"github.com/podrun/podrun/serve"
)

type deleteFlags struct {
	cli.InputFlags
	run.DeleteOptions
	all, allNamespaces, force bool
	now, ignoreMissing        bool
	dryRun                    string
	graceSeconds              int64
	labels                    string
}

// NewDelete returns the command delete.
func NewDelete(a *cli.App) *cobra.Command {
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
NAME' deletes only a Service, and 'delete svc,deploy -l SELECTOR' all objects of
these types.

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
		RunE: func(c *cobra.Command, named []string) error { return runDelete(a, c, f, named) },
	}
	f.Add(c.Flags())
	f.RelativePaths = true // delete uses only the names of pods, not their mounts
	f.Services = true
	c.Flags().BoolVar(&f.all, "all", false, "all pods of the namespace")
	c.Flags().StringVarP(&f.labels, "selector", "l", "", "all pods of the namespace that match the label selector (app=web)")
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "with --all: the pods of all namespaces")
	c.Flags().Int64Var(&f.graceSeconds, "grace-period", -1, "grace period in `seconds`; -1 for the pod's terminationGracePeriodSeconds, 0 to kill immediately")
	c.Flags().BoolVar(&f.force, "force", false, "kill immediately, like --grace-period=0")
	c.Flags().BoolVar(&f.now, "now", false, "like --grace-period=1")
	c.Flags().BoolVar(&f.ignoreMissing, "ignore-not-found", false, "do not fail if a named pod does not exist; the default with -f")
	c.Flags().StringVar(&f.dryRun, "dry-run", cli.DryNone, "client or server: print the pods and delete nothing")
	c.Flags().Lookup("dry-run").NoOptDefVal = cli.DryServer
	c.Flags().BoolVar(&f.KeepLogs, "keep-logs", false, "keep the pod's logs")
	c.Flags().BoolVar(&f.DeleteVolumes, "delete-volumes", false, "also delete the pods' claims in --pvc-dir, with their data; keep claims that another pod uses")
	c.Flags().DurationVar(&f.Timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print the outcome as json, yaml or name")
	a.AddQuiet(c)
	return c
}

func runDelete(a *cli.App, c *cobra.Command, f *deleteFlags, given []string) error {
	if names, ok := cli.NamedServices(given); ok && !a.IsPodName(given) {
		return deleteServices(a, c, f, names, nil)
	}
	given, services, kept := ownTypes(given, f.all || f.labels != "")
	if services && len(given) == 0 {
		return deleteServices(a, c, f, nil, kept)
	}
	kinds, named, err := cli.ParseSelected(given, f.all || f.labels != "")
	if err != nil {
		return err
	}
	if len(named) == 1 && len(given) == 1 && strings.EqualFold(given[0], "all") && !a.IsPodName(given) {
		return problem.UsageError(errors.New("'all' is a type of objects, and no name was specified"), "use 'podrun delete all --all' for all pods of the namespace, with the workloads that define them")
	}
	if err := f.check(c, named); err != nil {
		return err
	}
	if err := cli.CheckOutput(a.Output, "json", "yaml", "name"); err != nil {
		return err
	}
	in, err := f.input(c, a, given, kinds, named)
	if err != nil {
		return err
	}
	if services && in.Every != nil {
		in.Every.Services = true
	}
	r := a.Renderer()
	noteStored(r, kept)
	if f.HasFiles() {
		if in.Files, err = f.LoadWithin(a, c, nil, func(problem.List) {}); err != nil {
			return err
		}
	}
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), r, ownruntime.Acts)
	if err != nil {
		return err
	}
	defer closeAll()
	if in.Named, err = a.PodsOfIDs(c.Context(), node, named, cli.SandboxID); err != nil {
		return err
	}
	in.Working = a.Working(r, node, 0)
	report, err := run.Delete(c.Context(), node, in)
	return reportDelete(c.Context(), a, r, node, f, in, report, err)
}

// ownTypes splits a list of types that contains Services, such as svc,deploy,cm, if several is true because --all or -l is
// set. The result rest contains the types of pods and workloads, or nothing, and kept the types of objects that podrun
// stores with pods. Without Services, ownTypes returns the arguments.
func ownTypes(given []string, several bool) (rest []string, services bool, kept []string) {
	if !several || len(given) != 1 || strings.EqualFold(given[0], "all") {
		return given, false, nil
	}
	kinds, err := cli.KindsOf(given[0])
	if err != nil || !slices.Contains(kinds, apikind.Service) {
		return given, false, nil
	}
	var types []string
	for _, kind := range kinds {
		switch t := apikind.Of(kind); {
		case kind == apikind.Service:
		case t != nil && t.Referred():
			kept = append(kept, kind+"s")
		default:
			types = append(types, kind)
		}
	}
	if len(types) > 0 {
		rest = []string{strings.Join(types, ",")}
	}
	return rest, true, kept
}

// noteStored prints that delete does not delete the objects of the given types: "ConfigMaps".
func noteStored(r *cli.Renderer, types []string) {
	if len(types) > 0 {
		r.Note("podrun stores " + strings.Join(types, " and ") + " with the pods that refer to them, and deletes them with these pods")
	}
}

// input returns the input of the operation, except for the objects of files and names of containers.
func (f *deleteFlags) input(c *cobra.Command, a *cli.App, given []string, kinds cli.KindFilter, named []lookup.Ref) (run.DeleteInput, error) {
	match, err := grammar.ParseSelector(f.labels)
	if err != nil {
		return run.DeleteInput{}, grammar.Usage(c, err)
	}
	in := run.DeleteInput{Options: f.DeleteOptions, Namespace: a.NamespaceOrDefault("default"), Named: named, DryRun: f.dryRun != cli.DryNone,
		IgnoreMissing: f.ignoreMissing || len(named) == 0 && !c.Flags().Changed("ignore-not-found")}
	if f.all || f.labels != "" {
		in.Every = &run.Selection{
			AllNamespaces: f.allNamespaces, Kinds: kinds, Labelled: f.labels != "", Labels: match,
			Services: len(given) == 1 && strings.EqualFold(given[0], "all"),
			Pods:     func(k run.Known) bool { return kinds.Selects(k, f.labels, match) },
		}
	}
	return in, nil
}

// reportDelete prints what a delete has done, and the warnings about what remains or comes back.
func reportDelete(ctx context.Context, a *cli.App, r *cli.Renderer, node *run.Node, f *deleteFlags, in run.DeleteInput, report run.Report, err error) error {
	for _, ref := range report.Missing {
		fmt.Fprintf(a.Streams.Err, "%s not found\n", ref)
	}
	for _, e := range report.Entries {
		if e.Outcome == run.OutcomeMarked {
			fmt.Fprintf(a.Streams.Err, "%s/%s is %s\n", cli.ResourceOf(e.Kind), e.ID.Name, e.Outcome)
		}
	}
	switch nothing := len(report.Entries) == 0; {
	case nothing && err != nil:
		return err
	case nothing && in.Every != nil:
		r.Note("no pods found")
	}
	if in.DryRun {
		return errors.Join(err, printDryDelete(a, report))
	}
	hintInterrupted(report.Entries, "run the command again to complete the deletion; add --now to shorten the grace period to 1 s")
	reads := serve.ReadsFile(ctx, node.Layout())
	for _, pod := range report.Pods() {
		if pod.Err != nil {
			continue
		}
		if file := serve.SourceOf(node, pod.ID); file != "" {
			if reads(file) {
				r.Warn(problem.List{startsAgain(pod.ID, file)})
			}
		} else if workload := serve.WorkloadOf(node, pod.ID); workload != "" {
			r.Warn(problem.List{replicaStartsAgain(pod.ID, workload)})
		}
	}
	if in.Every != nil && len(in.Every.Kinds) == 0 && f.all {
		warnRemaining(ctx, a, r, node, f)
	}
	return a.Report(report, err)
}

// startsAgain returns the warning that a supervisor starts a deleted pod again. The argument from is serve.SourceOf.
func startsAgain(id identity.Pod, from string) problem.Problem {
	p := problem.Problem{Warning: true, Object: "pod " + id.String(), Message: "podrun serve will start it again, because " + from + " defines it",
		Hint: "remove it from that file, or stop it: 'podrun stop " + id.Args() + "'"}
	if serve.OfAPIServer(from) {
		p.Message = "podrun-node will start it again, because the API server defines it"
		p.Hint = "delete it in the cluster: 'kubectl delete pod " + id.Args() + "'; or stop it: 'podrun stop " + id.Args() + "'"
	}
	return p
}

// replicaStartsAgain returns the warning that a supervisor starts a deleted replica of a workload again. The argument
// workload is serve.WorkloadOf.
func replicaStartsAgain(id identity.Pod, workload string) problem.Problem {
	workload = identity.Pod{Namespace: id.Namespace, Name: workload}.Args()
	return problem.Problem{Warning: true, Object: "pod " + id.String(), Message: "podrun serve will start it again, because it is a replica",
		Hint: "reduce the number of replicas: 'podrun scale " + workload + " --replicas=N'; or delete the workload: 'podrun delete " + workload + "'"}
}

// printDryDelete prints what a delete would delete: lines or, with -o json or yaml, the pods.
func printDryDelete(a *cli.App, report run.Report) error {
	if a.Output == "" || a.Output == "name" {
		a.PrintLines(report.Entries)
		return nil
	}
	var pods []corev1.Pod
	for _, e := range report.Pods() {
		pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.ID.Namespace, Name: e.ID.Name}}
		if e.Pod != nil { // the checkpoint is readable
			pod = *e.Pod
		}
		pods = append(pods, pod)
	}
	return printDryPods(a, pods, "")
}

// check rejects contradictory flags and sets the grace period.
func (f *deleteFlags) check(c *cobra.Command, named []lookup.Ref) error {
	switch {
	case (f.all || f.labels != "") && (len(named) > 0 || f.HasFiles()):
		return grammar.Usage(c, errors.New("--all and -l cannot be used with names or -f"))
	case !f.all && f.labels == "" && len(named) == 0 && !f.HasFiles():
		return problem.UsageError(errors.New("specify pods by name, -f FILE, -l SELECTOR or --all"), "use 'podrun delete NAME', or 'podrun delete --all' for all pods of the namespace; run 'podrun get' to list them")
	case f.graceSeconds < -1:
		return grammar.Usage(c, fmt.Errorf("--grace-period=%d is not a number of seconds", f.graceSeconds))
	case f.force && f.graceSeconds > 0:
		return grammar.Usage(c, errors.New("--force kills immediately and cannot be used with a --grace-period other than 0"))
	case f.now && (f.force || f.graceSeconds >= 0):
		return grammar.Usage(c, errors.New("--now cannot be used with --force or --grace-period"))
	case !slices.Contains([]string{cli.DryNone, cli.DryClient, cli.DryServer}, f.dryRun):
		return problem.UsageError(fmt.Errorf("--dry-run=%s is not one of none, client, server", f.dryRun), "use --dry-run=client")
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
