package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/podrun/podrun/cmd/apikind"
	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/inspect"
	"github.com/podrun/podrun/internal/identity"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/manifest"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

type scaleFlags struct {
	cli.InputFlags
	replicas, current int32
	all               bool
	labels            string
	dryRun            string
	timeout           time.Duration
	paths             map[string]string // of --pvc
}

// NewScale returns the command scale.
func NewScale(a *cli.App) *cobra.Command {
	f := &scaleFlags{}
	c := &cobra.Command{
		Use:   "scale TYPE/NAME... | -f FILE --replicas=N",
		Short: "Change the number of pods of a workload",
		Long: `Change the number of pods of Deployments, StatefulSets, ReplicaSets and
ReplicationControllers, and wait until new pods are started. podrun runs several pods of
a workload only if the workload has the annotation podrun.dev/replicas: honour, or if
the setting 'replicas: honour' is set. The first pod has the name of the workload, the
others are NAME-1, NAME-2 and so on. With --replicas=0, podrun removes all pods of the
workload but keeps its definition.`,
		Example: `  podrun scale deploy/web --replicas=3
  podrun scale statefulset/db --current-replicas=1 --replicas=2
  podrun scale -f web.yaml --replicas=0`,
		RunE: func(c *cobra.Command, given []string) error { return runScale(a, c, f, given) },
	}
	set := c.Flags()
	set.Int32Var(&f.replicas, "replicas", 0, "the new `number` of pods; required")
	set.Int32Var(&f.current, "current-replicas", -1, "fail if the workload does not have this `number` of pods; -1 for any number")
	set.StringArrayVarP(&f.Files, "filename", "f", nil, "`file`, directory, - for stdin, or https URL with the workloads; repeatable")
	set.StringVarP(&f.Kustomize, "kustomize", "k", "", "`directory` of a kustomization with the workloads")
	set.BoolVar(&f.all, "all", false, "all workloads of the type in the namespace")
	set.StringVarP(&f.labels, "selector", "l", "", "all workloads of the type that match the label selector (app=web)")
	f.AddClaimFlag(set)
	set.StringVar(&f.dryRun, "dry-run", cli.DryNone, "change nothing: client prints the result, server also checks whether this host would run the pods")
	set.Lookup("dry-run").NoOptDefVal = cli.DryClient
	set.DurationVar(&f.timeout, "timeout", cli.DefaultTimeout, "time limit; 0 for no limit")
	set.StringVarP(&a.Output, "output", "o", "", "print only the names of the workloads (name)")
	a.AddQuiet(c)
	f.Validate = string(manifest.Ignore)
	f.RelativePaths = true
	f.Services = true
	f.AllowEmpty = true
	f.IgnoreKinds = true
	return c
}

// target is a workload to scale.
type target struct {
	kind string
	id   identity.Pod
}

func runScale(a *cli.App, c *cobra.Command, f *scaleFlags, given []string) error {
	if err := f.check(c, a); err != nil {
		return err
	}
	kinds, named, err := cli.ParseSelected(given, f.all || f.labels != "")
	if err != nil {
		return err
	}
	if err := f.checkSelection(c, kinds, named); err != nil {
		return err
	}
	if f.paths, err = f.ClaimPaths(c); err != nil {
		return err
	}
	f.Claims = nil // -f names workloads; the claims are those of the pods that scale adds
	r := a.MessageRenderer()
	r.SeveralPods = true
	use := ownruntime.Use(ownruntime.Starts)
	if f.dryRun != cli.DryNone {
		use = ownruntime.Reads
	}
	var targets []target
	if f.HasFiles() {
		if targets, err = f.inFiles(a, c); err != nil {
			return err
		}
	}
	node, closeAll, err := a.OpenNodeAsRoot(c.Context(), r, use)
	if err != nil {
		return err
	}
	defer closeAll()
	for _, ref := range named {
		targets = append(targets, target{kind: ref.Kind, id: identity.Pod{Namespace: a.NamespaceOrDefault("default"), Name: ref.Name}})
	}
	if len(kinds) > 0 {
		if targets, err = f.selected(c.Context(), a, node, kinds); err != nil {
			return err
		}
		if len(targets) == 0 {
			r.Note("no workloads found")
			return nil
		}
	}
	var failed error
	for _, t := range targets {
		failed = errors.Join(failed, scale(c.Context(), a, f, r, node, t))
	}
	return failed
}

// check rejects contradictory flags.
func (f *scaleFlags) check(c *cobra.Command, a *cli.App) error {
	switch {
	case !c.Flags().Changed("replicas"):
		return problem.UsageError(errors.New("--replicas is required"), "use '"+c.CommandPath()+" deploy/NAME --replicas=2'")
	case f.replicas < 0:
		return grammar.Usage(c, fmt.Errorf("--replicas=%d is negative", f.replicas))
	case f.current < -1:
		return grammar.Usage(c, fmt.Errorf("--current-replicas=%d is negative", f.current))
	case !slices.Contains([]string{cli.DryNone, cli.DryClient, cli.DryServer}, f.dryRun):
		return problem.UsageError(fmt.Errorf("--dry-run=%s is not one of none, client, server", f.dryRun), "use --dry-run=client")
	}
	return cli.CheckOutput(a.Output, "name")
}

// checkSelection rejects an empty selection, and objects without a number of pods.
func (f *scaleFlags) checkSelection(c *cobra.Command, kinds cli.KindFilter, named []lookup.Ref) error {
	hint := "use '" + c.CommandPath() + " deploy/NAME --replicas=2'; run 'podrun get all' to list the workloads"
	switch several := f.all || f.labels != ""; {
	case f.HasFiles() && (several || len(named) > 0):
		return grammar.Usage(c, errors.New("-f cannot be used with names, --all or -l"))
	case several && len(named) > 0:
		return problem.UsageError(errors.New("--all and -l cannot be used with names"), "use '"+c.CommandPath()+" deploy --all --replicas=2'")
	case several && len(kinds) == 0:
		return problem.UsageError(errors.New("--all and -l require a type of workload"), "use '"+c.CommandPath()+" deploy --all --replicas=2'")
	case !several && !f.HasFiles() && len(named) == 0:
		return problem.UsageError(errors.New("specify a workload by its type and name, or -f FILE"), hint)
	}
	for _, kind := range kinds {
		named = append(named, lookup.Ref{Kind: kind})
	}
	for _, ref := range named {
		if !manifest.IsReplicated(ref.Kind) {
			kind := ref.Kind
			if kind == "" {
				kind = apikind.Pod
			}
			return problem.UsageError(fmt.Errorf("the number of pods of a %s cannot be changed", kind), hint)
		}
	}
	return nil
}

// inFiles returns the workloads in the files.
func (f *scaleFlags) inFiles(a *cli.App, c *cobra.Command) (out []target, err error) {
	objects, err := f.Load(c.Context(), a, c, nil, func(problem.List) {})
	if err != nil {
		return nil, err
	}
	seen := map[target]bool{}
	add := func(t target) {
		if !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	for _, w := range objects.Workloads {
		add(target{kind: w.Kind, id: w.ID()})
	}
	for _, p := range objects.Pods {
		if kind, name := p.WorkloadRef(); manifest.IsReplicated(kind) {
			add(target{kind: kind, id: identity.Pod{Namespace: p.Object.Namespace, Name: name}})
		}
	}
	if len(out) == 0 {
		return nil, problem.UsageError(errors.New("the files contain no workload whose number of pods can be changed"), "use a Deployment, StatefulSet, ReplicaSet or ReplicationController")
	}
	return out, nil
}

// selected returns the workloads of the namespace that --all or -l selects.
func (f *scaleFlags) selected(ctx context.Context, a *cli.App, node *run.Node, kinds cli.KindFilter) (out []target, err error) {
	match, err := grammar.ParseSelector(f.labels)
	if err != nil {
		return nil, err
	}
	objects, _, err := inspect.ReadObjects(ctx, a, node, a.NamespaceOrDefault("default"), inspect.Selection{Kinds: kinds})
	for _, o := range objects {
		if match(o.Meta.GetLabels()) {
			out = append(out, target{kind: o.Kind, id: identity.Pod{Namespace: o.Meta.GetNamespace(), Name: o.Meta.GetName()}})
		}
	}
	return out, err
}

// scale scales one workload, and prints the result.
func scale(ctx context.Context, a *cli.App, f *scaleFlags, r *cli.Renderer, node *run.Node, t target) error {
	in := run.ScaleInput{
		Kind:     t.kind,
		ID:       t.id,
		Replicas: f.replicas,
		DryRun:   f.dryRun != cli.DryNone,
		Admit:    f.dryRun == cli.DryServer,
		Claims:   f.paths,
	}
	in.Timeout, in.AllowKubelet = f.timeout, a.AllowKubelet
	if f.current >= 0 {
		in.Current = &f.current
	}
	a.TrackWork(r, node, []identity.Pod{t.id}, run.UndoTimeout)
	report, err := run.Scale(ctx, node, in)
	name := cli.ResourceOf(t.kind) + "/" + t.id.Name
	if err = errors.Join(err, report.Err()); err != nil {
		if len(report.Of(t.kind)) > 0 && !in.DryRun {
			r.Print(fmt.Sprintf("%s: the number of replicas is now %d, but not all pods have been started or removed: run the command again to complete the change", name, f.replicas))
		}
		return err
	}
	switch {
	case a.Output == "name":
		fmt.Fprintln(a.Streams.Out, name)
	case f.dryRun == cli.DryClient:
		fmt.Fprintln(a.Streams.Out, name+" scaled (dry run)")
	case f.dryRun == cli.DryServer:
		fmt.Fprintln(a.Streams.Out, name+" scaled (server dry run)")
	default:
		fmt.Fprintln(a.Streams.Out, name+" scaled")
	}
	return nil
}
