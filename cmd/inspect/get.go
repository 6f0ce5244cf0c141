package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podrun/podrun/cmd/cli"
	"github.com/podrun/podrun/cmd/grammar"
	"github.com/podrun/podrun/cmd/view"
	"github.com/podrun/podrun/internal/problem"
	"github.com/podrun/podrun/internal/rootless"
	"github.com/podrun/podrun/run"
	"github.com/podrun/podrun/run/lookup"
	"github.com/podrun/podrun/run/ownruntime"
)

type getFlags struct {
	printFlags
	allNamespaces bool
	selector      string
	watch         bool
	watchOnly     bool
	quiet         bool
	fieldSelector string
	timeout       time.Duration
	sources       bool
	references    bool
	ignoreMissing bool
}

// NewGet returns the command get.
func NewGet(a *cli.App) *cobra.Command {
	f := &getFlags{}
	c := &cobra.Command{
		Use:   "get [NAME... | TYPE[,TYPE...] [NAME...] | TYPE/NAME...]",
		Short: "Show pods and their status, or the objects that define them",
		Long: `Show the pods that podrun runs on this host, with the status that the kubelet would
report. Probes run only while 'podrun serve' or another command supervises the pod. If
no command does, get shows the time of the last probe: "Running (as of 5m ago)", or
"Running*" on a narrow terminal. A footnote on stderr explains the mark.

On a terminal, --watch shows a live view with the last event of each pod. Press n, s, r
or a to sort the rows by name, status, restarts or age, and q to quit. Without a
terminal ('podrun get -w | cat'), podrun prints a line for each change, as
'kubectl get --watch' does.

TYPE is pods, the type of a workload (deployments, jobs…), services, endpointslices,
configmaps or secrets, or one of kubectl's short names; 'all' means pods, Services and
workloads. podrun prints these objects as they were applied, with kubectl's columns.
The replica columns of a workload count the pod that podrun runs for it, or all of its
pods if it has the annotation podrun.dev/replicas: honour. podrun has only the
ConfigMaps and Secrets that pods refer to. If the only argument is a TYPE, such
as job, and also the name of a pod, it selects that pod.

Applying the output of -o yaml again changes nothing. With --with-references, the
output also contains the ConfigMaps, Secrets and claims of the pods.

'podrun get pvc' lists the PersistentVolumeClaims that have a directory in
--pvc-dir, with the pods that use them.`,
		Example: `  podrun get
  podrun get web -o yaml
  podrun get -A -o wide --sort-by .metadata.creationTimestamp
  podrun get web -o jsonpath='{.status.podIP}'
  podrun get -o custom-columns=NAME:.metadata.name,IP:.status.podIP
  podrun get -w
  podrun get all
  podrun get deploy,cm -o wide
  podrun get secret password -o jsonpath={.data.password}
  podrun get web -o yaml --with-references > web.yaml
  podrun get pvc
  podrun get --sources`,
		RunE: func(c *cobra.Command, named []string) error {
			if claims, ok := claimNames(named); ok {
				return getClaims(a, c, f, claims)
			}
			s, ok, err := parseSelection(named)
			if err != nil {
				return err
			}
			if ok && !a.IsPodName(named) {
				return getObjects(a, c, f, s)
			}
			return runGet(a, c, f, named)
		},
	}
	c.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "pods in all namespaces")
	c.Flags().StringVarP(&f.selector, "selector", "l", "", "label selector of the pods (app=web,tier!=db)")
	f.add(c.Flags())
	c.Flags().StringVarP(&a.Output, "output", "o", "", "print as wide, json, yaml, name, jsonpath=TEMPLATE, jsonpath-as-json=TEMPLATE, go-template=TEMPLATE or custom-columns=HEADING:FIELD,…; jsonpath-file, go-template-file and custom-columns-file take a file")
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "list the pods, then print each pod that changes, until interrupted; on a terminal, show a live view; -o json prints one object per line")
	c.Flags().BoolVar(&f.watchOnly, "watch-only", false, "like --watch, but do not list the pods first")
	c.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print only names, like -o name")
	c.Flags().StringVar(&f.fieldSelector, "field-selector", "", "field `selector` of the pods: metadata.name, metadata.namespace, spec.nodeName, spec.restartPolicy, status.phase or status.podIP (status.phase=Running)")
	c.Flags().DurationVar(&f.timeout, "timeout", 0, "with --watch: time limit; 0 for no limit")
	c.Flags().BoolVar(&f.ignoreMissing, "ignore-not-found", false, "do not fail if a named pod does not exist")
	c.Flags().BoolVar(&f.references, "with-references", false, "with -o json or yaml: also print the ConfigMaps, Secrets, claims, volumes and RuntimeClasses that the pods refer to, in a List that can be applied")
	c.Flags().BoolVar(&f.sources, "sources", false, "show the manifest directories and URLs of the running podrun serve instead of pods")
	return c
}

func runGet(a *cli.App, c *cobra.Command, f *getFlags, given []string) error {
	refs, err := grammar.PodRefs(given, false)
	if err != nil {
		return err
	}
	byTemplate, match, err := getOutput(c.Context(), a, f)
	if err != nil {
		return err
	}
	matchFields, err := grammar.ParseFieldSelector(f.fieldSelector)
	if err != nil {
		return err
	}
	watching := f.watch || f.watchOnly
	switch {
	case f.sources && (watching || f.allNamespaces || f.selector != "" || len(refs) > 0):
		return grammar.Usage(c, errors.New("--sources cannot be used with names, -A, -l, --watch or --watch-only"))
	case watching && f.fieldSelector != "":
		return problem.UsageError(errors.New("--field-selector cannot be used with --watch"), "use -l SELECTOR, or filter the output: 'podrun get --watch -o json | jq .'")
	case watching && f.references:
		return grammar.Usage(c, errors.New("--with-references cannot be used with --watch"))
	case watching && (a.Output == "yaml" || byTemplate != nil || f.sortBy != ""):
		return grammar.Usage(c, errors.New("--watch prints a table, names or, with -o json, one object per line, and does not sort"))
	case f.sources && byTemplate != nil:
		return grammar.Usage(c, errors.New("--sources prints a table, json or yaml"))
	case f.sources:
		return getSources(c.Context(), a)
	}
	messages := &heldMessages{to: a.Streams.Err}
	node, closeAll, err := a.OpenNode(c.Context(), &cli.Renderer{W: messages}, ownruntime.Reads)
	if err != nil {
		return err
	}
	defer closeAll()
	if refs, err = a.PodsOfIDs(c.Context(), node, refs, cli.AnyID); err != nil {
		return err
	}
	if watching {
		return watchEnd(c.Context(), watch(a, c, f, node, messages, refs, match))
	}
	pods, missing, err := readPods(c.Context(), a, node, f.allNamespaces, refs)
	if f.ignoreMissing {
		missing = nil
	}
	if err != nil || missing != nil && len(pods) == 0 {
		return errors.Join(err, missing)
	}
	var shown []corev1.Pod
	for _, p := range pods {
		if match(p.Labels) && matchFields(p) {
			shown = append(shown, p)
		}
	}
	if f.sortBy != "" {
		if err := view.SortPods(shown, f.sortBy); err != nil {
			return grammar.Usage(c, fmt.Errorf("--sort-by: %w", err))
		}
	}
	single := len(refs) == 1 && len(shown) == 1
	if f.ignoreMissing && len(refs) > 0 && len(shown) == 0 {
		return nil // as in kubectl
	}
	if f.references {
		return errors.Join(missing, printWithReferences(a, node, ofPods(shown)))
	}
	if byTemplate != nil {
		return errors.Join(missing, printTemplate(a, byTemplate, podObject(shown, single)))
	}
	return errors.Join(missing, printPods(a, shown, f, single))
}

// getOutput sets the output format. It returns the printer of the template (nil without a template)
// and the match function of -l.
func getOutput(ctx context.Context, a *cli.App, f *getFlags) (byTemplate podPrinter, match func(map[string]string) bool, err error) {
	if a.Output == "" && f.template != "" {
		a.Output = "go-template" // as in kubectl
	}
	if a.Output == "" && f.quiet {
		a.Output = "name"
	}
	if byTemplate, err = f.printer(ctx, a.Output); err != nil {
		return nil, nil, err
	}
	if f.references && a.Output != "json" && a.Output != "yaml" {
		return nil, nil, problem.UsageError(errors.New("--with-references requires -o json or -o yaml"), "add -o yaml")
	}
	match, err = grammar.ParseSelector(f.selector)
	return byTemplate, match, err
}

// watchEnd returns the error of a watch that returned err. The end of --timeout is not an error, as with kubectl.
func watchEnd(ctx context.Context, err error) error {
	if _, expired := errors.AsType[problem.TimeoutError](context.Cause(ctx)); expired {
		return nil
	}
	return err
}

// readPods reads the pods of the namespace, or the named pods (podRefs). Missing joins the
// errors for named pods that do not exist; readPods returns the other pods in any case.
func readPods(ctx context.Context, a *cli.App, node *run.Node, allNamespaces bool, refs []lookup.Ref) (pods []corev1.Pod, missing, err error) {
	named, missing := grammar.Resolve(node.Layout(), namespaceRead(a, allNamespaces), refs)
	if len(refs) > 0 && len(named) == 0 {
		return nil, missing, nil
	}
	if pods, err = findPods(ctx, a, node, allNamespaces, named); err != nil {
		return nil, nil, err
	}
	for _, name := range named {
		if !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == name }) {
			missing = errors.Join(missing, cli.NotFound(name))
		}
	}
	return pods, missing, nil
}

// namespaceRead returns the namespace whose pods a command reads, or "" for all of them.
func namespaceRead(a *cli.App, all bool) string {
	if all {
		return ""
	}
	return a.NamespaceOrDefault("default")
}

// findPods reads the pods of the namespace, or those of the named pods that exist.
func findPods(ctx context.Context, a *cli.App, node *run.Node, allNamespaces bool, named []string) ([]corev1.Pod, error) {
	views, err := lookup.Pods(ctx, node, lookup.Selector{Namespace: namespaceRead(a, allNamespaces), Names: named})
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	a.ObservedAt = map[types.UID]time.Time{}
	for _, v := range views {
		pods = append(pods, *v.Object)
		if !v.KnownAt.IsZero() {
			a.ObservedAt[v.Object.UID] = v.KnownAt
		}
	}
	return pods, nil
}

func printPods(a *cli.App, pods []corev1.Pod, f *getFlags, single bool) error {
	out := a.Streams.Out
	switch a.Output {
	case "json", "yaml":
		if single {
			return view.PrintData(a.Raw.Out, a.Output, pods[0])
		}
		return view.PrintData(a.Raw.Out, a.Output, cli.ListOf(pods))
	case "name":
		for i := range pods {
			fmt.Fprintf(out, "pod/%s\n", pods[i].Name)
		}
		return nil
	}
	if len(pods) == 0 {
		fmt.Fprintln(a.Streams.Err, "no pods found"+rootsPods())
		return nil
	}
	return view.PodTable(a.Raw.Out, a.ScreenOf(a.OutTerminal), pods, tableOptions(a, f, true))
}

// tableOptions returns the options of a table. With --watch, only the first table has headings and footnotes. A table
// without headings has no footnotes, because scripts read such tables.
func tableOptions(a *cli.App, f *getFlags, first bool) view.TableOptions {
	o := view.TableOptions{Wide: a.Output == "wide", Namespaces: f.allNamespaces, Now: time.Now(), KnownAt: a.ObservedAt,
		NoHeaders: f.noHeaders || !first, LabelColumns: f.labels, ShowLabels: f.showLabels}
	if !o.NoHeaders {
		o.Notes = a.Streams.Err
	}
	return o
}

// rootsPods returns a remark for a list without pods.
func rootsPods() string {
	if !ownruntime.RootRuns() {
		return ""
	}
	return " of user " + rootless.UserName() + "; 'sudo podrun get' shows those of root"
}
